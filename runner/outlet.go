package runner

import (
	"context"
	"errors"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// outlet is where the events of a lane go. There are three: that of the conversation,
// whose events go to the turn's consumer; that of a [child], whose events go to the
// workflow that runs it; and that of an agent that a tool runs.
type outlet interface {
	// store stores events in one write.
	store(ctx context.Context, events []*event.Event) error
	// deliver hands on what the lane has stored since it was last called, and reports
	// whether the consumer wants more.
	deliver() bool
	// show hands on one event that the lane itself does not store, because it is partial or
	// was stored by an inner scope. It reports whether the consumer wants more.
	show(e *event.Event) bool
	// within is the child in whose place scopes inside the lane store what they have to
	// store, nil if nobody is at work beside the lane.
	within() *child
}

// consumer is the outlet of the conversation: whoever ranges over the turn.
type consumer struct {
	t     *turn
	yield func(*event.Event, error) bool
}

func (c *consumer) store(ctx context.Context, events []*event.Event) error {
	return c.t.append(ctx, events)
}

func (c *consumer) within() *child { return nil }

func (c *consumer) show(e *event.Event) bool {
	if !e.Partial { // its turn comes in the order of the log
		return c.deliver()
	}
	if _, late := c.t.whole[e.ID]; late { // it was slower on its way out of an inner scope
		return true
	}
	return c.t.conversation.hand(e, c.yield)
}

// deliver hands over all stored events that the consumer does not have yet, in the order
// of the log.
func (c *consumer) deliver() bool {
	for t := c.t; ; {
		t.mu.Mutex.Lock() // what it has stored stays the turn's
		rest := t.log[t.delivered:]
		t.mu.Unlock()
		if len(rest) == 0 {
			return true
		}
		for _, e := range rest {
			t.delivered++
			t.complete(e)
			if !t.conversation.hand(e, c.yield) {
				return false
			}
		}
	}
}

// toolRun is the outlet of an agent that a tool runs: its events, stored already, go back
// to the tool.
type toolRun struct {
	lane  *lane
	via   *child // in whose place it stores, nil if it does so itself
	seen  int64  // how much of the log was handed on
	yield func(*event.Event, error) bool
}

func (r *toolRun) store(ctx context.Context, events []*event.Event) error {
	if r.via != nil {
		return r.via.storeInner(ctx, events)
	}
	return r.lane.t.append(ctx, events)
}

// recorded hands on the events of a scope that is over, and returns the error with which it
// has ended.
func (r *toolRun) recorded() (failed error) {
	for e, err := range r.lane.t.Events(r.lane.ctx, r.seen) {
		if err != nil {
			return err
		}
		if e.Scope != r.lane.scope {
			continue
		}
		if !r.lane.hand(e, r.yield) {
			r.lane.stopped = true
			return nil
		}
		switch d := e.Data.(type) {
		case *event.Failure:
			failed = &agent.RunError{Agent: e.Agent, Code: d.Code, Err: errors.New(d.Message)}
			if d.Code == event.CodeTripwire { // whose words no model reads
				failed = &agent.TripwireError{Guard: "of " + e.Agent, Agent: e.Agent, Err: failed}
			}
		case *event.HarnessStart:
			failed = nil
		}
	}
	return failed
}

func (r *toolRun) within() *child { return r.via }

func (r *toolRun) show(e *event.Event) bool {
	return r.lane.ctx.Err() == nil && r.lane.hand(e, r.yield)
}

func (r *toolRun) deliver() bool {
	if r.lane.ctx.Err() != nil {
		return false
	}
	for e, err := range r.lane.t.Events(r.lane.ctx, r.seen) {
		if err != nil {
			return false
		}
		r.seen = e.Seq
		if e.Scope == r.lane.scope && !r.lane.hand(e, r.yield) {
			return false
		}
	}
	return true
}
