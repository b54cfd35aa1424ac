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
)

// leg is the session's last handoff, as its log says. The runner keeps it next to the session, and stores it as
// JSON: a change of what it keeps of a log changes the name of its snapshot.
type leg struct {
	Position int64     // up to which the log was read
	At       time.Time // of the event there
	ID       string
	Asked    wish      // with which it was requested
	AskedAt  int64     // the position of the request
	Since    time.Time // when it was requested
	UpTo     int64     // the desk has the conversation up to this position; 0: it has not answered the request
	Now      Status
	Heard    []string // the ids of the desk's messages
	Handed   wish     // of the last transfer that led to a person
}

// wish is the request for a person.
type wish struct {
	From   string // the agent that transferred
	Reason string
	Route  string   // the target that a router chose
	Path   []string // of the graph
}

// Seq is the position up to which the log was read.
func (l *leg) Seq() int64 { return l.Position }

// SnapshotName is the name under which the runner stores a leg next to the log.
func (l *leg) SnapshotName() string { return "desk" }

type memoKey struct{}

// follow returns the leg as it is at the end of the log.
func follow(ctx context.Context, s agent.Session) (*leg, error) {
	l := s.Memo(memoKey{}, func() any { return &leg{Now: None} }).(*leg)
	return l, l.CatchUp(s.Events(ctx, l.Position))
}

// CatchUp takes in the events behind those that were taken in before. The runner calls it after a turn, too.
func (l *leg) CatchUp(events iter.Seq2[*event.Event, error]) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		if e.Seq > l.Position {
			l.apply(e)
		}
	}
	return nil
}

func (l *leg) apply(e *event.Event) {
	l.Position, l.At = e.Seq, e.Time
	if e.Scope != "" {
		return
	}
	switch d := e.Data.(type) {
	case *event.Transfer:
		if d.To == agent.Human && d.Outcome == event.TransferCommitted {
			l.Handed = wish{From: d.From, Reason: d.Reason, Path: d.GraphPath}
			if d.Routed() {
				l.Handed.Route = agent.Human
			}
		}
	case *event.HandoffStatus:
		if d.HandoffID != l.ID {
			*l = leg{Position: e.Seq, At: e.Time, ID: d.HandoffID, AskedAt: e.Seq, Since: e.Time, Now: None, Handed: l.Handed,
				Asked: wish{l.Handed.From, d.Reason, d.RouteDecision, d.GraphPath}}
		}
		if to := Status(d.Status); l.Now.leadsTo(to) { // news repeat the status
			l.Now = to
		}
		l.UpTo = max(l.UpTo, d.UpTo)
		if d.DeskEventID != "" {
			l.Heard = append(l.Heard, d.DeskEventID)
		}
	}
}

// knows reports whether the log has a word of the desk.
func (l *leg) knows(wordID string) bool { return slices.Contains(l.Heard, wordID) }

// next begins another leg.
func (l *leg) next(id string) *leg {
	return &leg{Position: l.Position, At: l.At, Since: l.At, ID: id, Asked: l.Handed, Now: Requested, Handed: l.Handed}
}

// open reports whether the leg is under way in a session. A fork has the log of another one's
// handoff, and no part in it.
func (l *leg) open(key agent.SessionKey) bool {
	return !l.Now.Final() && strings.HasPrefix(l.ID, legID(key, ""))
}

func legID(key agent.SessionKey, id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.String()))
	return fmt.Sprintf("h%08x-%s", h.Sum32(), id)
}

// steps returns the way to a status; none if it is the present one, or if there is none.
func (l *leg) steps(to Status) ([]Status, error) {
	if to == "" || to == l.Now {
		return nil, nil
	}
	if way := l.Now.way(to); way != nil {
		return way, nil
	}
	return nil, &TransitionError{l.Now, to}
}

// walk returns the events of steps, or of news without any. The last one has the update.
func (l *leg) walk(steps []Status, u Update, wordID string) (events []event.Data) {
	if len(steps) == 0 {
		steps = []Status{l.Now}
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
	return &event.HandoffStatus{HandoffID: l.ID, Status: string(s), TargetAgent: target, Reason: reason, UpTo: l.UpTo,
		RouteDecision: l.Asked.Route, GraphPath: l.Asked.Path}
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
