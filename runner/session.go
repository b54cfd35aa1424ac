package runner

import (
	"context"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// The methods in this file make a turn the agent.Session of its agents. Tools
// that run in parallel, and agents inside them, may call them at once.

// apply takes a stored event into what is kept of the session.
func (w *warm) apply(e *event.Event) {
	w.fold.Apply(e)
	w.last = session.HeadOf(e).ID
	switch d := e.Data.(type) {
	case *event.File:
		w.files.add(d, 0)
	case *event.User:
		w.files.sent(d, e.Seq)
	}
}

// Key implements agent.Session.
func (t *turn) Key() session.Key { return t.key }

// Seq implements agent.Session.
func (t *turn) Seq() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.fold.Seq
}

// Turns implements agent.Session.
func (t *turn) Turns() agent.Turns {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.fold.Turns
}

// Events implements agent.Session. The events of this turn are in memory,
// earlier ones come from the store.
func (t *turn) Events(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		t.mu.Lock()
		log, read, seq := t.log, t.read, t.w.fold.Seq
		t.mu.Unlock()
		if after >= seq {
			return
		}
		first := seq - int64(len(log))
		if after < first && !t.earlier(ctx, after, first, read, yield) {
			return
		}
		for _, e := range log[max(0, len(log)-int(seq-after)):] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// earlier yields the events between two positions, the second included, from the store, but for those
// that were just read. It reports whether to go on. The last of them are kept until the end of the turn, because several agents
// may want them.
func (t *turn) earlier(ctx context.Context, after, until int64, read []*event.Event, yield func(*event.Event, error) bool) bool {
	until -= int64(len(read))
	if after < until {
		var earlier []*event.Event
		for e, err := range t.r.store.Load(ctx, t.key, after) {
			if err == nil && e.Seq > until {
				break
			}
			if err != nil && ctx.Err() == nil {
				err = t.outage(err)
			}
			if !yield(e, err) || err != nil {
				return false
			}
			if until-after <= int64(longTail-len(read)) {
				earlier = append(earlier, e)
			}
		}
		t.keepRead(earlier, len(read))
		after = until
	}
	for _, e := range read[after-until:] {
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

// keepRead keeps events that come before those that were read, unless others did that meanwhile.
func (t *turn) keepRead(earlier []*event.Event, known int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(earlier) > 0 && len(t.read) == known {
		t.read = append(earlier, t.read...)
	}
}

// State implements agent.Session.
func (t *turn) State(key string) (any, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !strings.HasPrefix(key, "user:") && !strings.HasPrefix(key, "app:") {
		return t.w.fold.State(key)
	}
	if t.shared == nil {
		shared, err := t.r.store.SharedState(t.ctx, t.key)
		if err != nil {
			_ = t.outage(err) // which ends the turn: an agent does not go on without its state
			t.r.logger.Error("the state of user and app cannot be read", "session", t.key.String(), "error", err)
			return nil, false
		}
		t.shared = shared
	}
	v, ok := t.shared[key]
	return v, ok
}

// Memo implements agent.Session.
func (t *turn) Memo(key any, create func() any) any {
	t.mu.Lock()
	v, ok := t.w.memos.get(key)
	t.mu.Unlock()
	if ok {
		return v
	}
	v = t.restored(create)
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, ok := t.w.memos.get(key); ok {
		return other
	}
	t.w.memos.put(memo{key: key, value: v})
	return v
}

// updateShared applies a stored event to the shared state in memory.
func (t *turn) updateShared(e *event.Event) {
	if s, ok := e.Data.(*event.State); ok && t.shared != nil {
		for key, value := range s.Delta {
			switch {
			case !strings.HasPrefix(key, "user:") && !strings.HasPrefix(key, "app:"):
			case value == nil:
				delete(t.shared, key)
			default:
				t.shared[key] = value
			}
		}
	}
}

// publish shows a partial event to those who follow the session. What they miss
// comes when it is whole.
func (t *turn) publish(e *event.Event) {
	if err := t.r.tail.Publish(t.ctx, t.key, e); err != nil && t.ctx.Err() == nil {
		t.r.logger.Warn("a partial event could not be published", "session", t.key.String(), "error", err)
	}
}
