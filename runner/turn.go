package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// turn is one user turn under way: its session with the lease, and its consumer. It is shared by the scopes
// that run in it: the conversation, and inner ones.
type turn struct {
	turnSession
	tally   tally
	newID   func() string
	renewal renewal

	released bool       // the last write gave the lease back
	failed   error      // what the turn has ended with here
	known    bool       // how it stood when it left the session
	cut      bool       // it was not over then
	tells    *TurnState // is told how the turn stands when it leaves the session
	last     bool       // nobody tries the step again

	entered map[string]bool // inner scopes of before that go on in this turn, by mu
}

func newTurn(ctx context.Context, r *setup, key session.Key) *turn {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &turn{turnSession: turnSession{r: r, ctx: ctx, cancel: cancel, key: key}, newID: r.newID}
	t.tally = tally{bounds: r.bounds, session: &t.turnSession}
	if t.newID == nil {
		t.newID = new(idPool).next
	}
	return t
}

// abandons reports whether another process shall go on with the turn: who has cut it off says so, or nobody has
// and yet it is not over, because the store has failed. A turn that is done step by step is its engine's.
func (t *turn) abandons(cause error) bool {
	switch {
	case cause != nil && !errors.Is(cause, agent.ErrLimit) && !errors.Is(cause, session.ErrUnavailable):
		return errors.Is(cause, session.ErrAbandoned)
	case !t.known:
		return t.failed != nil
	}
	return t.failed != nil && t.cut && t.tells == nil && !t.r.outer && !errors.Is(t.failed, ErrLeft)
}

// beginUnleased begins a fresh turn of a warm session in which nothing is open: the write that stores the first events takes the
// lease, if the log still ends where the warm session does. It reports false if the turn has not begun so; nothing has happened
// then, if there is no error.
func (t *turn) beginUnleased(fresh bool, begin func() error) (begun bool, err error) {
	c := t.r.cache
	if !fresh {
		return false, nil
	}
	if t.cached = c.takeIf(t.key, (*cachedSession).rests); t.cached == nil {
		return false, nil
	}
	t.lease, t.unleased = session.Lease{Head: t.cached.head(), Incarnation: t.cached.born}, true
	defer func() {
		if t.unleased {
			c.put(t.cached)
			t.cached, t.lease, t.unleased, t.lost = nil, session.Lease{}, false, false
		}
	}()
	if err = begin(); err == nil && !t.unleased {
		c.has(t.key, &t.turnSession)
		return true, nil
	}
	if t.failed != nil {
		return false, err
	}
	return false, nil // with the lease it may be otherwise
}

// send makes a write where the log ends.
func (t *turn) send(ctx context.Context, w session.Write) error {
	w.Head, w.Lease = t.cached.head(), t.lease
	if t.unleased {
		w.Acquire = t.r.owner
	}
	asked := time.Now()
	lease, err := t.r.store.Write(ctx, t.key, w)
	if err == nil {
		t.held = asked
	}
	switch {
	case err == nil && t.unleased:
		lease.Head = w.Head // where the turn began
		t.lease, t.unleased, t.cached.born = lease, false, lease.Incarnation
	case errors.Is(err, agent.ErrConflict):
		t.lost = true
	case err != nil && t.unleased && !errors.Is(err, agent.ErrSessionBusy):
		t.failed = err
	}
	return err
}

// take gets the warm session, brought up to date.
func (t *turn) take(key session.Key) (err error) {
	c := t.r.cache
	if err := c.enter(t.ctx, key); err != nil {
		return err
	}
	defer c.leave(key)
	if t.cached, err = t.r.cache.open(t.ctx, key, &t.lease); err == nil {
		t.read, t.cached.tail, t.cached.fork = t.cached.tail, nil, t.lease.Fork
		c.has(key, &t.turnSession)
	}
	return err
}

// leave gives the warm session back to the cache. A tool that ignores the end of its
// context may be left running, and an agent inside of it: they see an empty session from
// now on, and not what the next turn does with this one.
func (t *turn) leave() {
	if t.mu.left != nil {
		return
	}
	t.warmViews()
	t.keepSnapshot()
	t.mu.Lock()
	defer t.mu.Unlock()
	w, c := t.cached, t.r.cache
	t.known, t.cut = true, w.fold.Unfinished()
	if t.tells != nil {
		*t.tells = turnStateOf(&w.fold)
	}
	t.cached, t.mu.left = nil, &t.turnSession
	if !t.lost {
		c.put(w)
	}
	if c.turn(w.key) == &t.turnSession { // else another one has taken the lease over
		c.has(w.key, nil)
	}
}

// acquire takes the lease of a session, and waits for one that is busy as long as the runner is to.
func (r *setup) acquire(ctx context.Context, key session.Key) (session.Lease, error) {
	lease, err := r.store.Write(ctx, key, session.Write{Acquire: r.owner})
	if r.wait <= 0 || !errors.Is(err, agent.ErrSessionBusy) {
		return lease, err
	}
	deadline := time.NewTimer(r.wait)
	defer deadline.Stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for errors.Is(err, agent.ErrSessionBusy) {
		select {
		case <-ctx.Done():
			return lease, ctx.Err()
		case <-deadline.C:
			return lease, err
		case <-tick.C:
			lease, err = r.store.Write(ctx, key, session.Write{Acquire: r.owner})
		}
	}
	return lease, err
}

// renewal prolongs a lease in the background until it is stopped.
type renewal struct {
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
}

func (t *turn) keepLease(key session.Key) *renewal {
	n := &t.renewal
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = false
	n.timer = time.AfterFunc(session.LeaseTTL/3, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.stopped {
			return
		}
		asked := time.Now()
		_, err := t.r.store.Write(t.ctx, key, session.Write{Lease: t.lease})
		if err == nil {
			t.mu.Lock()
			t.held = asked
			t.mu.Unlock()
		}
		if errors.Is(err, agent.ErrConflict) {
			t.cancel(err)
			return
		}
		if err != nil { // perhaps the next one gets through before the lease ends
			t.r.logger.Warn("the lease could not be renewed", "session", key.String(), "error", err)
		}
		n.timer.Reset(session.LeaseTTL / 3)
	})
	return n
}

func (n *renewal) stop() {
	n.timer.Stop()
	n.mu.Lock()
	n.stopped = true
	n.mu.Unlock()
}

// append stores events in one atomic write and takes them into the fold. Seq,
// time and missing ids are given here.
func (t *turn) append(ctx context.Context, events []*event.Event) error {
	return t.write(ctx, events, false)
}

// write is append, and may give the lease back in the same write.
func (t *turn) write(ctx context.Context, events []*event.Event, release bool) error {
	if len(events) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch err := context.Cause(ctx); {
	case decides(events), errors.Is(err, agent.ErrLimit):
		ctx = context.WithoutCancel(ctx) // what is decided or done is kept; the next step ends the turn
	case err != nil:
		return err
	}
	if events = t.closer().ordered(events); len(events) == 0 {
		return errClosed
	}
	// Times never go back, and no two writes have the same: a position where the
	// time changes is the end of a write.
	events = event.BoundAll(events)
	now := t.r.now().UTC()
	if last := t.cached.fold.Latest; !now.After(last) {
		now = last.Add(1)
	}
	for i, e := range events {
		e.Seq = t.cached.fold.Seq + int64(i) + 1
		e.More = false
		e.Time = now
		e.Data = event.Canonical(e.Data)
		if _, ok := e.Data.(*event.ToolResult); ok {
			if c := t.cached.fold.Scope(e.Scope).Run.Call(e.ID); c != nil {
				e.RunID = c.RunID // of the run that made the call, which a pause may have ended
			}
		}
		if e.ID == "" {
			e.ID = t.newID()
		}
	}
	w := session.Write{Events: events, Release: release}
	err := t.send(ctx, w)
	if err != nil && errors.Is(context.Cause(ctx), agent.ErrLimit) { // the limit came while it wrote
		err = t.send(context.WithoutCancel(ctx), w)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return t.outage(fmt.Errorf("nothing was stored: %w", err))
	}
	for _, e := range events {
		t.cached.apply(e)
		t.updateState(e)
		t.tally.stored(e)
		t.shown.settle(e)
	}
	t.log = append(t.log, events...)
	return nil
}

// decides reports whether events hold a router's decision, which is stored also if the turn was cancelled since.
func decides(events []*event.Event) bool {
	return slices.ContainsFunc(events, func(e *event.Event) bool { _, ok := e.Data.(*event.Route); return ok })
}

// finish stores the last events of a turn, of which there are some, and gives the lease back in the same write.
// The warm session is back in the cache before anybody else of this process looks
// for it there, and before the consumer gets the events, who may begin the next turn then. Where
// snapshots are to be stored the lease is kept for them.
func (t *turn) finish(ctx context.Context, events []*event.Event) error {
	c, key := t.r.cache, t.key
	if t.r.snapshots && t.cached.kept.due(t.cached.fold.Seq+int64(len(events)), t.r.every) || c.enter(ctx, key) != nil {
		return t.append(ctx, events)
	}
	defer c.leave(key)
	t.renewal.stop() // between the write and its answer a renewal would find that the lease is gone
	err := t.write(ctx, events, true)
	if err != nil {
		t.keepLease(key)
		return err
	}
	t.released = true
	t.leave()
	return nil
}
