package runner

import (
	"context"

	"github.com/agentarbor/arbor/event"
)

// sink receives the events of a scope. It has three implementations: the conversation's sends them to the turn's
// consumer, that of a workflow's child to the workflow, and that of an agent that a tool runs to the tool.
type sink interface {
	// store stores events in one write.
	store(ctx context.Context, events []*event.Event) error
	// deliver passes on what the scope has stored since the last call, and reports whether the consumer wants more.
	deliver() bool
	// show passes on an event that the scope does not store itself, because it is partial or an inner scope has
	// stored it. It reports whether the consumer wants more.
	show(e *event.Event) bool
}

// delivery stores and delivers the events of a scope until its consumer wants no more.
type delivery struct {
	turn      *turn
	ctx       context.Context // of the scope
	cancel    context.CancelCauseFunc
	draft     *draft
	sink      sink
	stopped   bool   // the consumer broke out of its loop
	consuming bool   // the consumer's code is running
	delta     string // the id of the block of the last delta, "" after a write
}

// commit stores events in one write, and delivers them.
func (s *delivery) commit(ctx context.Context, events []*event.Event) error {
	s.delta = ""
	if err := s.sink.store(ctx, events); err != nil {
		return err
	}
	s.deliver()
	return nil
}

// deliver passes on what was stored, and records whether the consumer wants more.
func (s *delivery) deliver() bool {
	return !s.stopped && s.wanted(s.sink.deliver())
}

// show passes on a partial event, or one that an inner scope has stored, and records whether the consumer wants more.
func (s *delivery) show(e *event.Event) bool {
	if s.stopped { // an earlier event was the last one that the consumer wanted
		return false
	}
	if e.RunID == "" {
		s.draft.stamp(e)
		e.Time = s.turn.r.now().UTC()
		if e.ID != s.delta { // the first delta of a block
			s.turn.mu.Lock()
			s.turn.unstored.shown.addShown(block{s.draft.scope, e.ID})
			s.turn.mu.Unlock()
			s.delta = e.ID
		}
		e.Data, _ = event.Bound(e.Data)                      // followers must be able to read it
		if tail := s.turn.r.tail; e.Partial && tail != nil { // a follower that misses it gets the complete event
			if err := tail.Publish(s.turn.ctx, s.turn.key, e); err != nil && s.turn.ctx.Err() == nil {
				s.turn.r.logger.Warn("a partial event could not be published", "session", s.turn.key.String(), "error", err)
			}
		}
	}
	return s.wanted(s.sink.show(e))
}

func (s *delivery) wanted(more bool) bool {
	if !more {
		s.stopped = true
		s.cancel(context.Canceled)
	}
	return more
}

// yieldEvent passes one event to the consumer's code.
func (s *delivery) yieldEvent(e *event.Event, yield func(*event.Event, error) bool) bool {
	s.consuming = true
	more := yield(e, nil)
	s.consuming = false
	return more
}
