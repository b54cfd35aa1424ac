package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
)

// errStopped is the cause with which the context of a child ends when its workflow stops it.
var errStopped = errors.New("stopped by its workflow")

// group implements workflow.Group: it runs the children of one run of a workflow. Each child has a scope and a
// goroutine. The workflow's goroutine stores their events through the workflow's scope: a child posts a write and waits
// for the reply. So the group can store simultaneous writes in the order of the workflow.
type group struct {
	outer  *scope          // the workflow's scope
	run    string          // the id of the workflow's run
	turn   string          // the id of the turn
	parent context.Context // of the workflow's step
	ctx    context.Context // of the children; Stop replaces it
	cancel context.CancelCauseFunc
	settle time.Duration // writes and ends within this time count as simultaneous
	guards []agent.Guard // check the children's text
	wg     sync.WaitGroup

	running  []*child          // in the order in which they were started
	inline   *child            // the only child, until it has run on the workflow's goroutine or gets its own
	count    int               // all children so far
	unstored []*event.Event    // ends of children, and events of the workflow, for the next write
	ended    []workflow.Result // the next result of Next
	waiting  []workflow.Result // children that still wait and were not started, for the next call of Next

	mu        sync.Mutex    // guards the fields below
	inbox     []*child      // wait for a write, or are done
	fromTools int           // the number of children in the inbox that store for a tool
	toShow    []*child      // wait until an event is shown
	wakeAt    int           // the size of the inbox that wakes the workflow up
	wake      chan struct{} // capacity 1
	closed    error         // not nil if the group refuses writes, and why
}

// Group implements agent.Runtime.
func (s runtime) Group(ctx context.Context, inv *agent.Invocation, settle time.Duration) workflow.Group {
	g := &group{outer: s.scope, run: inv.RunID(), turn: inv.TurnID(), parent: ctx, settle: settle, guards: s.guards.all(), wake: make(chan struct{}, 1)}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Start implements workflow.Group.
func (g *group) Start(children ...*workflow.Child) error {
	var begun []*child
	events := g.takeUnstored()
	for _, spec := range children {
		n := spec.Tree.Root()
		g.count++
		c := &child{group: g, spec: spec, number: g.count}
		c.scope = innerScope(g.outer, event.ChildScope(g.run, spec.Key), spec.Tree, g.guards)
		c.sink, c.ofWorkflow = c, true
		if spec.Resume {
			resumed, exists, waits := c.resumeScope()
			events = append(events, resumed...)
			if waits {
				g.waiting = append(g.waiting, workflow.Result{Child: spec, RunID: g.outer.turn.runOf(c.draft.scope).ID, Reason: event.FinishReasonInputRequired})
				continue
			}
			if exists {
				begun = append(begun, c)
				continue
			}
		}
		begun = append(begun, c)
		c.start = &event.Event{TurnID: g.turn, RunID: g.outer.turn.newID(), Scope: c.draft.scope, ParentID: spec.Cause, Agent: n.Agent.Name(), Path: n.Path,
			Data: &event.HarnessStart{AgentID: cmp.Or(spec.Ref, n.Agent.Name()), Input: spec.Input}}
		events = append(events, c.start)
	}
	if err := g.storeNow(events); err != nil {
		return err
	}
	for _, c := range begun {
		if c.start != nil {
			c.session = &scopeSession{turnSession: &c.turn.turnSession, after: c.start.Seq - 1}
		}
		c.bindContext()
		g.running = append(g.running, c)
	}
	if len(g.running) == 1 && len(begun) == 1 {
		g.inline = begun[0]
		return nil
	}
	g.spawn()
	g.wg.Add(len(begun))
	for _, c := range begun {
		go c.runAll()
	}
	return nil
}

// spawn starts a goroutine for the inline child, if there is one.
func (g *group) spawn() {
	if c := g.inline; c != nil {
		g.inline = nil
		g.wg.Add(1)
		go c.runAll()
	}
}

// storeNow stores events through the workflow's scope.
func (g *group) storeNow(events []*event.Event) error {
	if len(events) == 0 {
		return nil
	}
	if err := g.outer.commit(g.outer.ctx, events); err != nil {
		return err
	}
	if g.outer.stopped {
		return context.Canceled
	}
	return nil
}

// Next implements workflow.Group.
func (g *group) Next(wait time.Duration) ([]workflow.Result, error) {
	if err := g.storeNow(g.takeUnstored()); err != nil {
		return nil, err
	}
	if len(g.waiting) > 0 {
		g.ended, g.waiting = g.waiting, nil
		return g.ended, nil
	}
	var due, settled <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	over := g.ctx.Done()
	g.ended = nil
	if c := g.inline; c != nil && due == nil {
		g.inline = nil
		return g.runInline(c)
	}
	g.spawn()
	for {
		some, all, shown := g.pollInbox()
		switch {
		case shown:
			continue
		case all, some && g.settle <= 0:
			if err := g.processInbox(); err != nil {
				return nil, err
			}
			if len(g.ended) > 0 {
				return g.ended, nil
			}
			settled = nil
			continue
		case len(g.running) == 0 && due == nil:
			return nil, context.Cause(g.ctx)
		case some && settled == nil:
			settled = time.After(g.settle)
		}
		select {
		case <-g.wake:
		case <-settled:
			settled = nil
			if err := g.processInbox(); err != nil {
				return nil, err
			}
			if len(g.ended) > 0 {
				return g.ended, nil
			}
		case <-due:
			return nil, nil
		case <-over:
			over, due = nil, nil
			if cause := context.Cause(g.ctx); !errors.Is(cause, agent.ErrLimit) { // a limit ends each child's run
				g.drainChildren(cause)
				return nil, cause
			}
		}
	}
}

// runInline runs the only child on the workflow's goroutine, which would only wait for it.
func (g *group) runInline(c *child) ([]workflow.Result, error) {
	c.inline = true
	c.err, c.done = c.scope.runSteps(), true
	c.unbindContext()
	if err := cmp.Or(c.storeErr, g.recordEnd(c)); err != nil {
		return nil, err
	}
	return g.ended, nil
}

// pollInbox shows the events of the children in toShow. It reports whether some children, and whether all running ones,
// wait for a write or are done, and whether it has shown anything.
func (g *group) pollInbox() (some, all, shown bool) {
	g.mu.Lock()
	shows := g.toShow
	g.toShow = nil
	some, all = len(g.inbox) > 0, len(g.inbox) > 0 && len(g.inbox)-g.fromTools == len(g.running)
	g.wakeAt = 1
	if some {
		g.wakeAt = len(g.running)
	}
	g.mu.Unlock()
	if len(shows) > 0 {
		g.showAll(shows)
	}
	return some, all, len(shows) > 0
}

// showAll shows the children's events. Each child gets its reply, even if the consumer's code panics.
func (g *group) showAll(shows []*child) {
	replied := 0
	defer func() {
		for _, c := range shows[replied:] {
			c.reply <- context.Canceled
		}
	}()
	for _, c := range shows {
		var err error
		if !g.outer.show(c.event) {
			err = context.Canceled
		}
		c.reply <- err
		replied++
	}
}

// processInbox stores the writes of the children in the inbox in one write, and records the ends of the children that
// are done.
func (g *group) processInbox() error {
	g.mu.Lock()
	batch := g.inbox
	g.inbox, g.fromTools = nil, 0
	g.mu.Unlock()
	slices.SortFunc(batch, func(a, b *child) int {
		return cmp.Or(cmp.Compare(a.spec.Order, b.spec.Order), cmp.Compare(a.number, b.number), cmp.Compare(a.call, b.call))
	})
	var events []*event.Event
	for _, c := range batch {
		if !c.done {
			events = append(events, c.write...)
		}
	}
	stored := false
	defer func() { // each child gets its reply, even if the consumer's code panics
		if !stored {
			for _, c := range batch {
				if !c.done {
					c.reply <- context.Canceled
				}
			}
		}
	}()
	err := g.storeNow(events)
	stored = true
	for _, c := range batch {
		if !c.done {
			c.reply <- err
		} else {
			err = cmp.Or(err, g.recordEnd(c))
		}
	}
	return err
}

// recordEnd adds the result of a child that is done to ended, and its last write to unstored. It returns an error if
// the child could not end its run, which ends the turn.
func (g *group) recordEnd(c *child) error {
	g.running = slices.DeleteFunc(g.running, func(other *child) bool { return other == c })
	if len(c.closing) == 0 {
		return cmp.Or(c.err, context.Canceled)
	}
	g.unstored = append(g.unstored, c.closing...)
	closing := c.closing[len(c.closing)-1]
	end := closing.Data.(*event.HarnessEnd)
	ended := workflow.Result{Child: c.spec, RunID: closing.RunID, Reason: end.FinishReason, Output: end.Output, Err: c.err}
	for _, e := range c.closing {
		if f, ok := e.Data.(*event.Failure); ok && e.RunID == closing.RunID {
			ended.Code, ended.Message = f.Code, f.Message
		}
	}
	g.ended = append(g.ended, ended)
	return nil
}

// drainChildren cancels the children, refuses their writes, and waits for their goroutines.
func (g *group) drainChildren(cause error) {
	g.mu.Lock()
	g.closed = cause
	waiting := append(g.inbox, g.toShow...)
	g.inbox, g.toShow, g.fromTools = nil, nil, 0
	g.mu.Unlock()
	g.cancel(cause)
	for _, c := range waiting {
		if !c.done {
			c.reply <- cause
		}
	}
	g.wg.Wait()
	g.inline = nil // it has not run
}

// Stop implements workflow.Group.
func (g *group) Stop() []*workflow.Child {
	g.drainChildren(errStopped)
	children := make([]*workflow.Child, len(g.running))
	for i, c := range g.running {
		children[i] = c.spec
		g.unstored = append(g.unstored, c.lostUsage()...)
	}
	g.running = nil
	g.ctx, g.cancel = context.WithCancelCause(g.parent) // the workflow may start more children
	g.closed = nil
	g.outer.turn.mu.Lock()
	// This also ends runs that were interrupted earlier and not resumed.
	g.unstored = g.outer.turn.closer().closeInside(g.unstored, &g.outer.draft.run, false)
	g.outer.turn.mu.Unlock()
	return children
}

// Add implements workflow.Group.
func (g *group) Add(events ...*event.Event) {
	for _, e := range events {
		g.unstored = append(g.unstored, g.outer.draft.stamp(e))
	}
}

// Close implements workflow.Group.
func (g *group) Close() {
	g.drainChildren(cmp.Or(context.Cause(g.ctx), context.Canceled)) // also releases tools that were left running
	g.running = nil
	if !g.outer.stopped && !g.outer.consuming { // else the workflow makes no more writes
		g.outer.draft.events = append(g.outer.draft.events, g.unstored...)
	}
	g.unstored = nil
}

// takeUnstored returns the events for the next write, and clears them.
func (g *group) takeUnstored() []*event.Event {
	events := g.unstored
	g.unstored = nil
	return events
}

// wakeUp wakes the workflow up if the inbox is large enough or an event waits to be shown. The caller holds mu.
func (g *group) wakeUp() {
	if len(g.inbox) < g.wakeAt && len(g.toShow) == 0 {
		return
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}
