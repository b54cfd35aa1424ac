package human

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// leg is the session's last handoff, as its log says. It is kept beside the session and
// takes in event by event.
type leg struct {
	seq     int64 // the position up to which the log was read
	at      time.Time
	id      string
	from    string // the agent that handed over
	asked   *event.HandoffStatus
	askedAt int64     // the position of asked
	since   time.Time // when somebody asked
	upTo    int64     // the desk has the conversation until there; 0: it has not answered the request
	ctl     Controller
	heard   map[string]bool // the desk's words, by their ids
	handed  *event.Transfer // the last one that led to a person
}

type memoKey struct{}

// follow returns the leg as it is at the end of the log.
func follow(ctx context.Context, s agent.Session) (*leg, error) {
	l := s.Memo(memoKey{}, func() any { return &leg{} }).(*leg)
	for e, err := range s.Events(ctx, l.seq) {
		if err != nil {
			return nil, err
		}
		l.apply(e)
	}
	return l, nil
}

func (l *leg) apply(e *event.Event) {
	l.seq, l.at = e.Seq, e.Time
	if e.Scope != "" {
		return
	}
	switch d := e.Data.(type) {
	case *event.Transfer:
		if d.To == agent.Human && d.Outcome == event.TransferCommitted {
			l.handed = d
		}
	case *event.HandoffStatus:
		if d.HandoffID != l.id {
			*l = leg{seq: e.Seq, at: e.Time, id: d.HandoffID, asked: d, askedAt: e.Seq, since: e.Time, handed: l.handed}
			if l.handed != nil {
				l.from = l.handed.From
			}
		}
		_ = l.ctl.Apply(Step{Status: Status(d.Status), Reason: d.Reason, TargetAgent: d.TargetAgent, Time: e.Time}) // news repeat the status
		l.upTo = max(l.upTo, d.UpTo)
		if d.DeskEventID != "" {
			if l.heard == nil {
				l.heard = make(map[string]bool)
			}
			l.heard[d.DeskEventID] = true
		}
	}
}

// next begins another leg.
func (l *leg) next(id string) *leg {
	n := &leg{seq: l.seq, at: l.at, since: l.at, id: id, handed: l.handed}
	n.asked = n.status(Requested, "", "")
	if n.handed != nil {
		n.from, n.asked.Reason, n.asked.GraphPath = n.handed.From, n.handed.Reason, n.handed.GraphPath
		if n.handed.Routed() {
			n.asked.RouteDecision = agent.Human
		}
	}
	_ = n.ctl.Apply(Step{Status: Requested})
	return n
}

// open reports whether the leg is under way in a session. A fork has the log of another one's
// handoff, and no part in it.
func (l *leg) open(key agent.SessionKey) bool {
	return !l.ctl.Status().Final() && strings.HasPrefix(l.id, legID(key, ""))
}

func legID(key agent.SessionKey, id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.String()))
	return fmt.Sprintf("h%08x-%s", h.Sum32(), id)
}

// steps returns the way to a status; none if it is the present one, or if there is none.
func (l *leg) steps(to Status) ([]Status, error) {
	if to == "" || to == l.ctl.Status() {
		return nil, nil
	}
	if way := l.ctl.Way(to); way != nil {
		return way, nil
	}
	return nil, &TransitionError{l.ctl.Status(), to}
}

// walk returns the events of steps, or of news without any. The last one has the update.
func (l *leg) walk(steps []Status, u Update, wordID string) (events []event.Data) {
	if len(steps) == 0 {
		steps = []Status{l.ctl.Status()}
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
	d := &event.HandoffStatus{HandoffID: l.id, Status: string(s), TargetAgent: target, Reason: reason, UpTo: l.upTo}
	if l.asked != nil {
		d.RouteDecision, d.GraphPath = l.asked.RouteDecision, l.asked.GraphPath
	}
	return d
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
