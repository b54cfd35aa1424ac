package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Diff is the difference between two sessions.
type Diff struct {
	// Common is the number of equal events at the beginning of both.
	Common int64
	// Shared is the number of identical events at the beginning, because the sessions are forks of one conversation.
	// The other common events have the same content but different ids.
	Shared int64
	// A and B are the remaining events of each session.
	A, B Side
}

// Same reports whether neither session has an event that the other lacks.
func (d *Diff) Same() bool { return len(d.A.Events) == 0 && len(d.B.Events) == 0 }

// Side is the part of one session that differs from the other.
type Side struct {
	Key    session.Key
	Events []*event.Event
	// Fold is the state of the whole log, such as the active agent and the usage.
	Fold *session.Fold
}

// Diff compares two sessions event by event. Events are equal if they have the same agent and the same content;
// positions, times and ids may differ. If one of the sessions does not exist, the error is an [agent.ErrBadInput].
func (s *Sessions) Diff(ctx context.Context, a, b session.Key) (*Diff, error) {
	d := &Diff{A: Side{Key: a, Fold: &session.Fold{}}, B: Side{Key: b, Fold: &session.Fold{}}}
	next, stop := iter.Pull2(s.store.Load(ctx, b, 0))
	defer stop()
	same := true
	for e, err := range s.store.Load(ctx, a, 0) {
		if err != nil {
			return nil, err
		}
		d.A.Fold.Apply(e)
		if same {
			other, err, ok := next()
			if err != nil {
				return nil, err
			}
			if ok {
				d.B.Fold.Apply(other)
			}
			if same = ok && sameContent(e, other); same {
				d.Common++
				if d.Shared == d.Common-1 && sameEvent(e, other) {
					d.Shared++
				}
				continue
			}
			if ok {
				d.B.Events = append(d.B.Events, other)
			}
		}
		d.A.Events = append(d.A.Events, e)
	}
	for {
		other, err, ok := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		d.B.Fold.Apply(other)
		d.B.Events = append(d.B.Events, other)
	}
	for _, side := range []*Side{&d.A, &d.B} {
		if side.Fold.Seq > 0 {
			continue
		}
		if _, ok, err := session.Find(ctx, s.store, side.Key); err != nil || !ok {
			return nil, cmp.Or(err, noPosition(side.Key, 1))
		}
	}
	return d, nil
}

// sameEvent reports whether two events are identical, as forks share them.
func sameEvent(a, b *event.Event) bool {
	return a.ID == b.ID && a.RunID == b.RunID && a.Time.Equal(b.Time)
}

// sameContent reports whether two events are equal except for their position, ids and measured times.
func sameContent(a, b *event.Event) bool {
	if a.Type() != b.Type() || a.Agent != b.Agent || a.Path != b.Path || (a.Scope == "") != (b.Scope == "") {
		return false
	}
	none := func(string) string { return "" }
	said, err := json.Marshal(event.Comparable(a.Data, none))
	if err != nil {
		return false
	}
	other, err := json.Marshal(event.Comparable(b.Data, none))
	return err == nil && bytes.Equal(said, other)
}
