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

// leg is the session's last handoff, computed from the log. The runner stores it as JSON in the session's snapshot: if
// its fields change, change SnapshotName.
type leg struct {
	Position int64     // of the last event that was applied
	At       time.Time // of the same event
	ID       string
	Asked    origin    // the transfer that led to the request
	AskedAt  int64     // the position of the request
	Since    time.Time // of the request
	UpTo     int64     // the desk has the conversation up to this position; 0: it has not answered the request
	Now      Status
	Heard    []string // the ids of the desk's events that the log has
	Handed   origin   // the last transfer to a person
}

// origin describes the transfer to a person.
type origin struct {
	From   string // the agent that transferred
	Reason string
	Route  string   // the target that a router chose, "" without a router
	Path   []string // the names from the outermost router down
}

// Seq returns the position of the last event that was applied.
func (l *leg) Seq() int64 { return l.Position }

// SnapshotName returns the name of the leg in the session's snapshot.
func (l *leg) SnapshotName() string { return "desk" }

type memoKey struct{}

// currentLeg returns the leg at the end of the log. Callers must not change it.
func currentLeg(ctx context.Context, s agent.Session) (*leg, error) {
	l := s.Memo(memoKey{}, func() any { return &leg{Now: None} }).(*leg)
	return l, l.CatchUp(s.Events(ctx, l.Position))
}

// CatchUp applies events, and ignores those that were applied before. The runner also calls it after a turn.
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
			l.Handed = origin{From: d.From, Reason: d.Reason, Path: d.GraphPath}
			if d.Routed() {
				l.Handed.Route = agent.Human
			}
		}
	case *event.HandoffStatus:
		if d.HandoffID != l.ID {
			*l = leg{Position: e.Seq, At: e.Time, ID: d.HandoffID, AskedAt: e.Seq, Since: e.Time, Now: None, Handed: l.Handed,
				Asked: origin{l.Handed.From, d.Reason, d.RouteDecision, d.GraphPath}}
		}
		if to := Status(d.Status); l.Now.leadsTo(to) { // an event without a step repeats the status
			l.Now = to
		}
		l.UpTo = max(l.UpTo, d.UpTo)
		if d.DeskEventID != "" {
			l.Heard = append(l.Heard, d.DeskEventID)
		}
	}
}

// received reports whether the log has an event of the desk.
func (l *leg) received(eventID string) bool { return slices.Contains(l.Heard, eventID) }

// next returns a new handoff that begins at the end of the log.
func (l *leg) next(id string) *leg {
	return &leg{Position: l.Position, At: l.At, Since: l.At, ID: id, Asked: l.Handed, Now: Requested, Handed: l.Handed}
}

// open reports whether the handoff is in progress in the session with this key. A handoff of the session that a fork
// was taken from is not open in the fork.
func (l *leg) open(key agent.SessionKey) bool {
	return !l.Now.Final() && strings.HasPrefix(l.ID, legID(key, ""))
}

// legID returns the id of a handoff. Its prefix identifies the session.
func legID(key agent.SessionKey, id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.String()))
	return fmt.Sprintf("h%08x-%s", h.Sum32(), id)
}

// steps returns the statuses up to a new one, none if to is empty or the current status.
func (l *leg) steps(to Status) ([]Status, error) {
	if to == "" || to == l.Now {
		return nil, nil
	}
	if way := l.Now.way(to); way != nil {
		return way, nil
	}
	return nil, &TransitionError{l.Now, to}
}

// statusEvents returns an event for each step, or one with the current status without steps. The last event has the
// update.
func (l *leg) statusEvents(steps []Status, u Update, eventID string) (events []event.Data) {
	if len(steps) == 0 {
		steps = []Status{l.Now}
	}
	for i, status := range steps {
		d := l.status(status, "", "")
		if i == len(steps)-1 {
			d.TargetAgent, d.Reason, d.QueuePosition, d.DeskEventID = u.TargetAgent, u.Reason, u.QueuePosition, eventID
			if u.EstimatedWait != nil {
				d.EstimatedWaitTime = new(u.EstimatedWait.Seconds())
			}
		}
		events = append(events, d)
	}
	return events
}

// status returns an event with a status of the handoff.
func (l *leg) status(s Status, target, reason string) *event.HandoffStatus {
	return &event.HandoffStatus{HandoffID: l.ID, Status: string(s), TargetAgent: target, Reason: reason, UpTo: l.UpTo,
		RouteDecision: l.Asked.Route, GraphPath: l.Asked.Path}
}

// messages returns the messages of the conversation after a position, and the position of the end of the log.
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
