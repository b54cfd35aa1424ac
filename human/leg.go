package human

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
)

// leg is the session's last handoff, as its log says. It is kept beside the session and
// takes in event by event.
type leg struct {
	seq     int64 // the position up to which the log was read
	at      time.Time
	id      string
	asked   wish      // with which it was asked for
	askedAt int64     // the position of the request
	since   time.Time // when somebody asked
	upTo    int64     // the desk has the conversation until there; 0: it has not answered the request
	now     Status
	heard   []string // the desk's words, as sums of their ids
	handed  wish     // of the last transfer that led to a person
}

// wish is that for a person.
type wish struct {
	from   string // the agent that handed over
	reason string
	route  string   // the target that a router chose
	path   []string // of the graph
}

type memoKey struct{}

// follow returns the leg as it is at the end of the log.
func follow(ctx context.Context, s agent.Session) (*leg, error) {
	l := s.Memo(memoKey{}, func() any { return &leg{now: None} }).(*leg)
	return l, l.CatchUp(s.Events(ctx, l.seq))
}

// CatchUp takes in the events behind those that were taken in before. The runner calls it after a turn, too.
func (l *leg) CatchUp(events iter.Seq2[*event.Event, error]) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		if e.Seq > l.seq {
			l.apply(e)
		}
	}
	return nil
}

func (l *leg) apply(e *event.Event) {
	l.seq, l.at = e.Seq, e.Time
	if e.Scope != "" {
		return
	}
	switch d := e.Data.(type) {
	case *event.Transfer:
		if d.To == agent.Human && d.Outcome == event.TransferCommitted {
			l.handed = wish{from: d.From, reason: d.Reason, path: d.GraphPath}
			if d.Routed() {
				l.handed.route = agent.Human
			}
		}
	case *event.HandoffStatus:
		if d.HandoffID != l.id {
			*l = leg{seq: e.Seq, at: e.Time, id: d.HandoffID, askedAt: e.Seq, since: e.Time, now: None, handed: l.handed,
				asked: wish{l.handed.from, d.Reason, d.RouteDecision, d.GraphPath}}
		}
		if to := Status(d.Status); l.now.leadsTo(to) { // news repeat the status
			l.now = to
		}
		l.upTo = max(l.upTo, d.UpTo)
		if d.DeskEventID != "" {
			l.heard = append(l.heard, pack.Sum(d.DeskEventID))
		}
	}
}

// knows reports whether the log has a word of the desk.
func (l *leg) knows(wordID string) bool { return slices.Contains(l.heard, pack.Sum(wordID)) }

// next begins another leg.
func (l *leg) next(id string) *leg {
	return &leg{seq: l.seq, at: l.at, since: l.at, id: id, asked: l.handed, now: Requested, handed: l.handed}
}

// open reports whether the leg is under way in a session. A fork has the log of another one's
// handoff, and no part in it.
func (l *leg) open(key agent.SessionKey) bool {
	return !l.now.Final() && strings.HasPrefix(l.id, legID(key, ""))
}

func legID(key agent.SessionKey, id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.String()))
	return fmt.Sprintf("h%08x-%s", h.Sum32(), id)
}

// steps returns the way to a status; none if it is the present one, or if there is none.
func (l *leg) steps(to Status) ([]Status, error) {
	if to == "" || to == l.now {
		return nil, nil
	}
	if way := l.now.way(to); way != nil {
		return way, nil
	}
	return nil, &TransitionError{l.now, to}
}

// walk returns the events of steps, or of news without any. The last one has the update.
func (l *leg) walk(steps []Status, u Update, wordID string) (events []event.Data) {
	if len(steps) == 0 {
		steps = []Status{l.now}
	}
	for i, status := range steps {
		d := l.status(status, "", "")
		if i == len(steps)-1 {
			d.TargetAgent, d.Reason, d.QueuePosition, d.DeskEventID = u.TargetAgent, u.Reason, u.QueuePosition, wordID
			if u.EstimatedWait != nil {
				d.EstimatedWaitTime = new(u.EstimatedWait.Seconds())
			}
		}
		events = append(events, d)
	}
	return events
}

func (l *leg) status(s Status, target, reason string) *event.HandoffStatus {
	return &event.HandoffStatus{HandoffID: l.id, Status: string(s), TargetAgent: target, Reason: reason, UpTo: l.upTo,
		RouteDecision: l.asked.route, GraphPath: l.asked.path}
}

// messages returns what was said in the conversation after a position, and the position of the
// end of the log.
func messages(ctx context.Context, s agent.Session, after int64) (upTo int64, said []Message, err error) {
	upTo = after
	for e, err := range s.Events(ctx, after) {
		if err != nil {
			return after, nil, err
		}
		upTo = e.Seq
		m := Message{ID: e.ID, Author: e.Agent, Text: e.Text(), Time: e.Time.UTC().Truncate(time.Millisecond)}
		if user, ok := e.Data.(*event.User); ok {
			if m.Author, m.Text = "user", user.Content.PlainText(); m.Text == "" {
				m.Text = "(something without words)"
			}
		}
		if e.Scope == "" && m.Text != "" {
			said = append(said, m)
		}
	}
	return upTo, said, nil
}
