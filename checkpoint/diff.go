package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Diff is how two sessions differ.
type Diff struct {
	// Common is the number of events that both begin with.
	Common int64
	// Shared is how many of these are one and the same, because the sessions are
	// forks of one conversation. The others say and do the same, under other ids.
	Shared int64
	// A and B are what follows in each.
	A, B Side
}

// Same reports whether neither session has anything that the other lacks.
func (d *Diff) Same() bool { return len(d.A.Events) == 0 && len(d.B.Events) == 0 }

// Side is what one of two sessions has for itself.
type Side struct {
	Key    session.Key
	Events []*event.Event
	// Fold is the state of the whole log: who is active, the state, what was used.
	Fold *session.Fold
}

// Diff compares two sessions event by event. Events are the same if they are of one
// agent and say the same; positions, times and ids may differ. The error is
// [agent.ErrBadInput] if one of them does not exist.
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
			if same = ok && alike(e, other); same {
				d.Common++
				if d.Shared == d.Common-1 && one(e, other) {
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
		if infos, err := s.store.List(ctx, side.Key, session.Page{}); err != nil {
			return nil, err
		} else if len(infos) == 0 {
			return nil, noPosition(side.Key, 1)
		}
	}
	return d, nil
}

// one reports whether two events are one and the same, which forks share.
func one(a, b *event.Event) bool { return a.ID == b.ID && a.RunID == b.RunID && a.Time.Equal(b.Time) }

// alike reports whether two events are the same except for their place and time.
func alike(a, b *event.Event) bool {
	if a.Type() != b.Type() || a.Agent != b.Agent || a.Path != b.Path || (a.Scope == "") != (b.Scope == "") {
		return false
	}
	said, err := json.Marshal(anonymous(a.Data))
	if err != nil {
		return false
	}
	other, err := json.Marshal(anonymous(b.Data))
	return err == nil && bytes.Equal(said, other)
}

// anonymous returns a payload without the ids in it.
func anonymous(data event.Data) event.Data {
	switch d := data.(type) {
	case *event.ToolProgress:
		c := *d
		c.ToolCallID = ""
		return &c
	case *event.Relay:
		c := *d
		c.ToolCallID = ""
		return &c
	case *event.RelayResolved:
		c := *d
		c.RelayID = ""
		return &c
	case *event.Transfer:
		c := *d
		c.ToolCallID = ""
		return &c
	case *event.Discard:
		c := *d
		c.IDs = nil
		return &c
	}
	return data
}
