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

// child is one run of a group.
type child struct {
	*scope
	group    *group
	spec     *workflow.Child
	number   int            // of those of the group
	call     int            // more than 0 if it stores for a tool: the call's place in the answer
	start    *event.Event   // of its scope, nil if that was there
	closing  []*event.Event // the last write, which ends the run
	inline   bool           // it runs on the workflow's goroutine
	unstored error          // why something could not be stored meanwhile, which ends the turn
	err      error
	done     bool

	write []*event.Event // to be stored now
	event *event.Event   // to be shown
	reply chan error
}

// resumeScope continues the scope that the child had: with the run that was cut off, or with a
// new one if it waits, or in a fork. It returns the events that open that one, and reports whether the log has the scope, and whether
// that waits as before.
func (c *child) resumeScope() (events []*event.Event, had, waits bool) {
	t, scope := c.turn, cmp.Or(c.spec.Scope, c.draft.scope)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.fold().Scope(scope)
	if s.Run.ID == "" {
		return nil, false, false
	}
	c.draft.scope, c.session = scope, &scopeSession{turnSession: &t.turnSession, after: max(0, s.First-1)}
	events, again, goesOn := t.resumeInner(scope)
	c.again = again
	return events, true, !goesOn
}

// bindContext gives a child its context: the group's, or one that can end by itself.
func (c *child) bindContext() {
	switch g := c.group; {
	case c.spec.Timeout > 0:
		over := &agent.TimeoutError{Agent: c.spec.Tree.Root().Agent.Name(), After: c.spec.Timeout}
		ctx, cancel := context.WithCancelCause(g.ctx)
		timer := time.AfterFunc(c.spec.Timeout, func() { cancel(over) })
		c.bind(ctx, func(cause error) { timer.Stop(); cancel(cause) })
	case c.meter.time: // which ends one run alone
		c.bind(context.WithCancelCause(g.ctx))
	default:
		c.bind(g.ctx, g.cancel)
	}
}

// unbindContext frees what bound has made.
func (c *child) unbindContext() {
	if c.spec.Timeout > 0 || c.meter.time {
		c.cancel(nil)
	}
}

// runAll is a child's goroutine.
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

// store takes the place of the scope's own write: the events are stored by the
// workflow, and those that end the run together with what comes of it.
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
		c.unstored = cmp.Or(c.unstored, err)
		return err
	}
	c.write = events
	return c.post(&c.group.inbox)
}

// deliver does nothing: what is stored is delivered by the workflow.
func (c *child) deliver() bool { return true }

// show hands an event to the workflow's consumer.
func (c *child) show(e *event.Event) bool {
	if c.inline {
		c.consuming = true
		goOn := c.group.outer.show(e)
		c.consuming = false
		return goOn
	}
	c.event = e
	return c.post(&c.group.shows) == nil
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

// post puts the child in a queue, and waits until the workflow has stored or
// shown its events.
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

// keepEnd keeps the write that ends the run, with the run's output in it.
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
		end.Output = event.EncodeJSON(event.ValidText(said)) // as its words are stored
	}
	c.closing = events
	if slices.ContainsFunc(events, isAnswer) { // what it used counts until it is stored, which is later
		c.meter.asked = false
	}
}

// lostUsage returns what is kept of a run that was over but stopped before its
// workflow took its end: what the answer in its last write has used.
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
