package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
)

// child is one run of a group. It is the sink of its scope.
type child struct {
	*scope
	group    *group
	spec     *workflow.Child
	number   int            // its place in the order in which the group started its children, from 1
	call     int            // positive if it stores for a tool, in the order of the answer's calls; else 0
	start    *event.Event   // opens its scope, nil if the log has the scope
	closing  []*event.Event // the last write, which ends the run
	inline   bool           // it runs on the workflow's goroutine
	storeErr error          // the first error of an inline child's writes, which ends the turn
	err      error          // of its steps, once it is done
	done     bool

	write []*event.Event // what to store
	event *event.Event   // what to show
	reply chan error     // the answer of the workflow's goroutine; capacity 1
}

// resumeScope continues the child's scope if the log has it. It continues an interrupted run, and starts a new run if
// the scope waits or is that of another session. It returns the events that start the new run, and reports whether the
// log has the scope and whether the scope still waits.
func (c *child) resumeScope() (events []*event.Event, exists, waits bool) {
	t, scope := c.turn, cmp.Or(c.spec.Scope, c.draft.scope)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.fold().Scope(scope)
	if s.Run.ID == "" {
		return nil, false, false
	}
	c.draft.scope, c.session = scope, &scopeSession{turnSession: &t.turnSession, after: max(0, s.First-1)}
	events, again, continues := t.resumeInner(scope)
	c.resumed = again
	return events, true, !continues
}

// bindContext sets the child's context: that of the group, or one of its own if a timeout or budget can end it alone.
func (c *child) bindContext() {
	switch g := c.group; {
	case c.spec.Timeout > 0:
		over := &agent.TimeoutError{Agent: c.spec.Tree.Root().Agent.Name(), After: c.spec.Timeout}
		ctx, cancel := context.WithCancelCause(g.ctx)
		timer := time.AfterFunc(c.spec.Timeout, func() { cancel(over) })
		c.bind(ctx, func(cause error) { timer.Stop(); cancel(cause) })
	case c.meter.time: // a budget of time ends one run alone
		c.bind(context.WithCancelCause(g.ctx))
	default:
		c.bind(g.ctx, g.cancel)
	}
}

// unbindContext releases the context that bindContext has created.
func (c *child) unbindContext() {
	if c.spec.Timeout > 0 || c.meter.time {
		c.cancel(nil)
	}
}

// runAll runs all steps of a child. It is the child's goroutine.
func (c *child) runAll() {
	defer c.group.wg.Done()
	err := c.scope.runSteps()
	c.unbindContext()
	g := c.group
	g.mu.Lock()
	c.err, c.done = err, true
	if g.closed == nil {
		g.inbox = append(g.inbox, c)
		g.wakeUp()
	}
	g.mu.Unlock()
}

// store implements sink. The workflow's goroutine stores the events. Events that end the run are kept for the
// workflow's next write.
func (c *child) store(ctx context.Context, events []*event.Event) error {
	if len(events) == 0 {
		return nil
	}
	last := events[len(events)-1]
	if end, ok := last.Data.(*event.HarnessEnd); ok && last.Scope == c.draft.scope && end.FinishReason != event.FinishReasonTransfer {
		c.keepEnd(last, end, events)
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, agent.ErrLimit) && !decides(events) {
		return cause
	}
	if c.inline {
		c.consuming = true
		err := c.group.storeNow(events)
		c.consuming = false
		c.storeErr = cmp.Or(c.storeErr, err)
		return err
	}
	c.write = events
	return c.post(&c.group.inbox)
}

// deliver implements sink. It does nothing, because the workflow's scope delivers the events.
func (c *child) deliver() bool { return true }

// show implements sink. The workflow's goroutine shows the event.
func (c *child) show(e *event.Event) bool {
	if c.inline {
		c.consuming = true
		more := c.group.outer.show(e)
		c.consuming = false
		return more
	}
	c.event = e
	return c.post(&c.group.toShow) == nil
}

// storeInner stores events of a tool's scope in the order of the workflow.
func (c *child) storeInner(ctx context.Context, events []*event.Event) error {
	if len(events) == 0 {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, agent.ErrLimit) && !decides(events) {
		return cause
	}
	c.write = events
	return c.post(&c.group.inbox)
}

// post adds the child to a queue of the group, and waits until the workflow's goroutine has stored or shown its events.
func (c *child) post(queue *[]*child) error {
	g := c.group
	if c.reply == nil {
		c.reply = make(chan error, 1)
	}
	g.mu.Lock()
	if err := g.closed; err != nil {
		g.mu.Unlock()
		return err
	}
	*queue = append(*queue, c)
	if c.call > 0 {
		g.fromTools++
	}
	g.wakeUp()
	g.mu.Unlock()
	return <-c.reply
}

// keepEnd keeps the write that ends the run, and sets the run's output: without one in the end it is the last text of
// the agent.
func (c *child) keepEnd(last *event.Event, end *event.HarnessEnd, events []*event.Event) {
	if last.Agent == c.tree.Root().Agent.Name() {
		end.AgentID = cmp.Or(c.spec.Ref, end.AgentID)
	}
	if end.FinishReason == event.FinishReasonStop && end.Output == nil {
		said := c.turn.runOf(c.draft.scope).Said
		for _, e := range events {
			if text := textOf(e); text != "" && e.RunID == last.RunID {
				said = text
			}
		}
		end.Output = event.EncodeJSON(event.ValidText(said)) // the text as it is stored
	}
	c.closing = events
	if slices.ContainsFunc(events, isAnswer) { // the reservation stays until the usage is stored
		c.meter.hasReserved = false
	}
}

// lostUsage returns a discard with the usage of the last answer of a run that was done when its workflow stopped it.
// The write that ends the run is dropped.
func (c *child) lostUsage() []*event.Event {
	for _, e := range c.closing {
		if u, ok := e.Data.(*event.Usage); ok {
			lost := *e
			lost.ID, lost.Data = "", &event.Discard{Code: "canceled", Message: "stopped by " + c.group.outer.draft.run.Agent, IDs: c.draft.shown(), Usage: u}
			return []*event.Event{&lost}
		}
	}
	return nil
}
