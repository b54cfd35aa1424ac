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

// errStopped is why a child's context ends that its workflow has stopped.
var errStopped = errors.New("stopped by its workflow")

// group runs the children of one workflow's run. Each has a scope and a goroutine.
// What they store goes through the workflow's own scope, on the workflow's goroutine:
// they hand it over and wait, so that simultaneous writes can be stored in the order
// of the workflow.
type group struct {
	outer  *scope // the workflow's
	run    string
	turn   string
	parent context.Context // of the workflow's step
	ctx    context.Context // of the children, until they are stopped
	cancel context.CancelCauseFunc
	settle time.Duration
	guards []agent.Guard // that check the children's words
	wg     sync.WaitGroup

	live    []*child       // that run, in the order in which they began
	inline  *child         // the only one, while it has no goroutine
	count   int            // of all children
	pending []*event.Event // ends that are not stored yet
	ended   []workflow.Result
	waiting []workflow.Result // of children that wait as before

	mu        sync.Mutex // guards what follows
	inbox     []*child   // that wait for a write, or are done
	fromTools int        // how many in the inbox store for a tool
	shows     []*child   // that wait for an event to be shown
	need      int        // how many in the inbox are worth waking up for
	wake      chan struct{}
	closed    error // why nothing is taken any more
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
	events := g.takePending()
	for _, spec := range children {
		n := spec.Tree.Root()
		g.count++
		c := &child{group: g, spec: spec, number: g.count}
		c.scope = innerScope(g.outer, event.ChildScope(g.run, spec.Key), spec.Tree, g.guards)
		c.sink, c.ofWorkflow = c, true
		if spec.Resume {
			resumed, had, waits := c.resumeScope()
			events = append(events, resumed...)
			if waits {
				g.waiting = append(g.waiting, workflow.Result{Child: spec, RunID: g.outer.turn.runOf(c.draft.scope).ID, Reason: event.FinishReasonInputRequired})
				continue
			}
			if had {
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
		g.live = append(g.live, c)
	}
	if len(g.live) == 1 && len(begun) == 1 {
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

// spawn gives the only child a goroutine, because others are to run next to it.
func (g *group) spawn() {
	if c := g.inline; c != nil {
		g.inline = nil
		g.wg.Add(1)
		go c.runAll()
	}
}

// storeNow stores events by way of the workflow's scope.
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
	if err := g.storeNow(g.takePending()); err != nil {
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
			if err := g.takeInbox(); err != nil {
				return nil, err
			}
			if len(g.ended) > 0 {
				return g.ended, nil
			}
			settled = nil
			continue
		case len(g.live) == 0 && due == nil:
			return nil, context.Cause(g.ctx)
		case some && settled == nil:
			settled = time.After(g.settle)
		}
		select {
		case <-g.wake:
		case <-settled:
			settled = nil
			if err := g.takeInbox(); err != nil {
				return nil, err
			}
			if len(g.ended) > 0 {
				return g.ended, nil
			}
		case <-due:
			return nil, nil
		case <-over:
			over, due = nil, nil
			if cause := context.Cause(g.ctx); !errors.Is(cause, agent.ErrLimit) { // else the children end by it
				g.drainChildren(cause)
				return nil, cause
			}
		}
	}
}

// runInline runs the only child on the workflow's goroutine, which has nothing else to
// do.
func (g *group) runInline(c *child) ([]workflow.Result, error) {
	c.inline = true
	c.err, c.done = c.scope.runSteps(), true
	c.unbindContext()
	if err := cmp.Or(c.unstored, g.recordEnd(c)); err != nil {
		return nil, err
	}
	return g.ended, nil
}

// pollInbox shows what children want to be shown. It reports whether some of them, and
// whether all, wait for a write or are done.
func (g *group) pollInbox() (some, all, shown bool) {
	g.mu.Lock()
	shows := g.shows
	g.shows = nil
	some, all = len(g.inbox) > 0, len(g.inbox) > 0 && len(g.inbox)-g.fromTools == len(g.live)
	g.need = 1
	if some {
		g.need = len(g.live)
	}
	g.mu.Unlock()
	if len(shows) > 0 {
		g.showAll(shows)
	}
	return some, all, len(shows) > 0
}

// showAll shows events. Every child gets its reply, also if the consumer's code panics.
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

// takeInbox stores what the children in the inbox want stored, and records the ends of
// those that are done.
func (g *group) takeInbox() error {
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
	defer func() { // every child gets its reply, also if the consumer's code panics
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

// recordEnd records how a child has ended. The error is one of the turn.
func (g *group) recordEnd(c *child) error {
	g.live = slices.DeleteFunc(g.live, func(other *child) bool { return other == c })
	if len(c.closing) == 0 {
		return cmp.Or(c.err, context.Canceled)
	}
	g.pending = append(g.pending, c.closing...)
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

// drainChildren cancels the children and waits for them. Nothing more is taken from
// them.
func (g *group) drainChildren(cause error) {
	g.mu.Lock()
	g.closed = cause
	waiting := append(g.inbox, g.shows...)
	g.inbox, g.shows, g.fromTools = nil, nil, 0
	g.mu.Unlock()
	g.cancel(cause)
	for _, c := range waiting {
		if !c.done {
			c.reply <- cause
		}
	}
	g.wg.Wait()
	g.inline = nil // it never began to run
}

// Stop implements workflow.Group.
func (g *group) Stop() []*workflow.Child {
	g.drainChildren(errStopped)
	children := make([]*workflow.Child, len(g.live))
	for i, c := range g.live {
		children[i] = c.spec
		g.pending = append(g.pending, c.lostUsage()...)
	}
	g.live = nil
	g.ctx, g.cancel = context.WithCancelCause(g.parent) // others may begin
	g.closed = nil
	g.outer.turn.mu.Lock()
	g.pending = g.outer.turn.closer().closeInside(g.pending, &g.outer.draft.run, false) // also those that were cut off once, and did not begin again
	g.outer.turn.mu.Unlock()
	return children
}

// Add implements workflow.Group.
func (g *group) Add(events ...*event.Event) {
	for _, e := range events {
		g.pending = append(g.pending, g.outer.draft.stamp(e))
	}
}

// Close implements workflow.Group.
func (g *group) Close() {
	g.drainChildren(cmp.Or(context.Cause(g.ctx), context.Canceled)) // also what a tool has left behind
	g.live = nil
	if !g.outer.stopped && !g.outer.consuming { // the workflow's next write takes them along
		g.outer.draft.events = append(g.outer.draft.events, g.pending...)
	}
	g.pending = nil
}

// takePending returns the ends that wait to be stored with the next write.
func (g *group) takePending() []*event.Event {
	events := g.pending
	g.pending = nil
	return events
}

// wakeUp wakes the workflow up if there is enough for it to do. The caller holds mu.
func (g *group) wakeUp() {
	if len(g.inbox) < g.need && len(g.shows) == 0 {
		return
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}
