package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// child is one run of a group.
type child struct {
	lane
	scoped   scopeSession
	group    *group
	spec     *workflow.Child
	number   int            // of those of the group
	call     int            // more than 0 if it stores for a tool: the call's place in the answer
	at       int            // in live
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

// resume continues the scope that the child had: with the run that was cut off, or with a
// new one if it waits, or in a fork. It reports whether the log has the scope, and whether
// that waits as before.
func (c *child) resume() (had, waits bool) {
	t, scope := c.t, cmp.Or(c.spec.Scope, c.scope)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.w.fold.Scope(scope)
	if s.Run.ID == "" {
		return false, false
	}
	c.scope, c.scoped.after = scope, max(0, s.First-1)
	events, again, goesOn := t.goOn(scope)
	c.again = again
	c.group.events = append(c.group.events, events...)
	return true, !goesOn
}

// bound gives a child its context: the group's, or one that can end by itself.
func (c *child) bound() {
	g := c.group
	c.ctx, c.cancel = g.ctx, g.cancel
	switch {
	case c.spec.Timeout > 0:
		over := &agent.TimeoutError{Agent: c.spec.Tree.Root().Agent.Name(), After: c.spec.Timeout}
		ctx, cancel := context.WithCancelCause(g.ctx)
		timer := time.AfterFunc(c.spec.Timeout, func() { cancel(over) })
		c.ctx, c.cancel = ctx, func(cause error) { timer.Stop(); cancel(cause) }
	case c.t.r.budgeted.time: // which ends one run alone
		c.ctx, c.cancel = context.WithCancelCause(g.ctx)
	}
}

// unbound frees what bound has made.
func (c *child) unbound() {
	if c.spec.Timeout > 0 || c.t.r.budgeted.time {
		c.cancel(nil)
	}
}

func (t *turn) runOf(scope string) session.Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.fold.Scope(scope).Run
}

// runAll is a child's goroutine.
func (c *child) runAll() {
	grow(c.number)
	defer c.group.wg.Done()
	err := c.lane.run()
	c.unbound()
	g := c.group
	g.mu.Lock()
	c.err, c.done = err, true
	if g.closed == nil {
		g.inbox = append(g.inbox, c)
		g.alert()
	}
	g.mu.Unlock()
}

// grow makes the stack of a goroutine large enough for most steps while it is empty, so
// that nothing has to be moved later.
//
//go:noinline
func grow(i int) byte {
	var room [5 << 10]byte
	return room[i%len(room)]
}

// store takes the place of the lane's own write: the events are stored by the
// workflow, and those that end the run together with what comes of it.
func (c *child) store(ctx context.Context, events []*event.Event) error {
	if len(events) == 0 {
		return nil
	}
	last := events[len(events)-1]
	if end, ok := last.Data.(*event.HarnessEnd); ok && last.Scope == c.scope && end.FinishReason != event.FinishReasonTransfer {
		c.close(last, end, events)
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, agent.ErrLimit) && !decides(events) {
		return cause
	}
	if c.inline {
		c.consuming = true
		err := c.group.store(events)
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
		goOn := c.group.l.show(c.group.l.current, e)
		c.consuming = false
		return goOn
	}
	c.event = e
	return c.post(&c.group.shows) == nil
}

// via returns the child through which the scope of an agent tool of this lane stores its
// events. It is nil if the scope stores them itself, because no agent that a workflow has
// started runs beside it: then there is no order to keep.
func (l *lane) via(call string) *child {
	l.t.mu.Lock()
	place := slices.IndexFunc(l.t.w.fold.Scope(l.scope).Run.Pending, func(c session.Call) bool { return c.ID == call })
	l.t.mu.Unlock()
	of := l.outlet.within()
	if of == nil {
		return nil
	}
	return &child{group: of.group, spec: of.spec, number: of.number, call: 2 + place}
}

// within implements outlet: the child itself, unless it runs on the workflow's
// goroutine.
func (c *child) within() *child {
	if c.inline {
		return c.group.l.outlet.within()
	}
	return c
}

// ofWorkflow reports whether a workflow runs the lane.
func (l *lane) ofWorkflow() bool {
	_, ok := l.outlet.(*child)
	return ok
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
	g.alert()
	g.mu.Unlock()
	return <-c.reply
}

// close keeps the write that ends the run, with the run's output in it.
func (c *child) close(last *event.Event, end *event.HarnessEnd, events []*event.Event) {
	if last.Agent == c.tree.Root().Agent.Name() {
		end.AgentID = cmp.Or(c.spec.Ref, end.AgentID)
	}
	if end.FinishReason == event.FinishReasonStop && end.Output == nil {
		said := ""
		for _, e := range slices.Backward(events) {
			if t, ok := e.Data.(*event.Text); ok && e.RunID == last.RunID && strings.TrimSpace(t.Content) != "" {
				said = t.Content
				break
			}
		}
		if said == "" {
			said = c.t.runOf(c.scope).Said
		}
		end.Output = event.EncodeJSON(event.ValidText(said)) // as its words are stored
	}
	c.closing = events
	if slices.ContainsFunc(events, isAnswer) { // what it used counts until it is stored, which is later
		c.asked = false
	}
}

// lostUsage returns what is kept of a run that was over but stopped before its
// workflow took its end: what the answer in its last write has used.
func (c *child) lostUsage() []*event.Event {
	for _, e := range c.closing {
		if u, ok := e.Data.(*event.Usage); ok {
			lost := *e
			lost.ID, lost.Data = "", &event.Discard{Code: "canceled", Message: "stopped by " + c.group.l.current.Agent, IDs: c.shownIDs(), Usage: u}
			return []*event.Event{&lost}
		}
	}
	return nil
}

func (c *child) shownIDs() []string {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	return c.t.unsettled(c.scope, nil)
}
