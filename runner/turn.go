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

// turn is a user turn that runs in this process: its session, the lease, and what it has reserved of limits and
// budgets. All scopes of the turn share it: the conversation, and inner scopes.
type turn struct {
	turnSession
	tally   tally
	newID   func() string
	renewal renewal

	released    bool       // the last write gives the lease back, or has given it back
	failed      error      // the error with which the turn ended in this process
	known       bool       // the turn has returned the cached session, and unfinished is set
	unfinished  bool       // session.Fold.Unfinished at that time
	endState    *TurnState // is set when the turn returns the cached session; nil: the caller does not need it
	lastAttempt bool       // the caller does not retry the step

	anticipation *anticipation // nil if the turn has none

	entered map[string]bool // the inner scopes of earlier processes that calls have entered in this turn; guarded by mu
}

func newTurn(ctx context.Context, r *setup, key session.Key) *turn {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &turn{turnSession: turnSession{r: r, ctx: ctx, cancel: cancel, key: key, log: make([]*event.Event, 0, 16)}, newID: r.newID}
	t.tally = tally{bounds: r.bounds, session: &t.turnSession}
	return t
}

// abandonsLease reports whether to give the lease up so that another process adopts the turn: on session.ErrAbandoned,
// or when the store failed in the middle of the turn. The engine of a turn that runs step by step retries it itself.
func (t *turn) abandonsLease(cause error) bool {
	switch {
	case cause != nil && !errors.Is(cause, agent.ErrLimit) && !errors.Is(cause, session.ErrUnavailable):
		return errors.Is(cause, session.ErrAbandoned)
	case !t.known:
		return t.failed != nil
	}
	return t.failed != nil && t.unfinished && t.endState == nil && !t.r.outerRetries && !errors.Is(t.failed, ErrLeft) && !errors.Is(t.failed, session.ErrStopped)
}

// beginUnleased begins a turn with one write instead of two: the write that stores the first events also acquires the
// lease. That needs a new message, and a cached session in which nothing is open. The store refuses the write if the
// log has grown since. If begun is false, the turn stored nothing, and without an error the caller begins it with a
// lease.
func (t *turn) beginUnleased(newMessage bool, begin func() error) (begun bool, err error) {
	c := t.r.cache
	if !newMessage {
		return false, nil
	}
	if t.cached = c.checkOutIf(t.key, (*cachedSession).isIdle); t.cached == nil {
		return false, nil
	}
	t.lease, t.unleased = session.Lease{Head: t.cached.head(), Incarnation: t.cached.incarnation}, true
	defer func() {
		if t.unleased {
			c.checkIn(t.cached)
			t.cached, t.lease, t.unleased, t.lost = nil, session.Lease{}, false, false
		}
	}()
	if err = begin(); err == nil && !t.unleased {
		c.setHolder(t.key, &t.turnSession)
		return true, nil
	}
	if t.failed != nil {
		return false, err
	}
	return false, nil // with a lease the turn may succeed
}

// sendWrite sends a write to the store, for the end of the log as the turn knows it.
func (t *turn) sendWrite(ctx context.Context, w session.Write) error {
	w.Head, w.Lease = t.cached.head(), t.lease
	if t.unleased {
		w.Acquire = t.r.owner
	}
	asked := time.Now()
	lease, err := t.r.store.Write(ctx, t.key, w)
	if err == nil {
		t.confirmed, t.stop = asked, lease.Stop
	}
	switch {
	case err == nil && t.unleased:
		lease.Head = w.Head // of a lease, Head is the end of the log before the turn
		t.lease, t.unleased, t.cached.incarnation = lease, false, lease.Incarnation
	case errors.Is(err, agent.ErrConflict):
		t.lost = true
	case err != nil && t.unleased && !errors.Is(err, agent.ErrSessionBusy):
		t.failed = err
	}
	return err
}

// checkOutSession takes the session out of the cache and brings it up to date.
func (t *turn) checkOutSession() (err error) {
	c := t.r.cache
	if err := c.claim(t.ctx, t.key); err != nil {
		return err
	}
	defer c.unclaim(t.key)
	cached, err := c.upToDate(t.ctx, t.key, &t.lease)
	t.mu.Lock() // the lease is being renewed
	t.cached = cached
	t.mu.Unlock()
	if err == nil {
		t.read, t.cached.tail, t.cached.fork = t.cached.tail, nil, t.lease.Fork
		c.setHolder(t.key, &t.turnSession)
	}
	return err
}

// checkInSession returns the session to the cache. A tool that ignores the end of its context may still run, and an
// agent inside it. From now on they see an empty session, and not what the next turn does with this one.
func (t *turn) checkInSession() {
	if t.mu.left != nil {
		return
	}
	t.warmViews()
	t.storeSnapshot()
	t.mu.Lock()
	defer t.mu.Unlock()
	w, c := t.cached, t.r.cache
	t.known, t.unfinished = true, w.fold.Unfinished()
	if t.endState != nil {
		*t.endState = turnStateOf(&w.fold)
	}
	t.cached, t.mu.left = nil, &t.turnSession
	if !t.lost {
		c.checkIn(w)
	}
	if c.holderOf(w.key) == &t.turnSession { // otherwise another turn has the lease by now
		c.setHolder(w.key, nil)
	}
}

// acquireLease acquires the lease of the session. If the session is busy, it retries for as long as [WithWait] says.
func (t *turn) acquireLease() (err error) {
	deadline := time.Now().Add(t.r.wait)
	for {
		t.confirmed = time.Now()
		t.lease, err = t.r.store.Write(t.ctx, t.key, session.Write{Acquire: t.r.owner})
		if !errors.Is(err, agent.ErrSessionBusy) || !time.Now().Before(deadline) {
			return err
		}
		select {
		case <-t.ctx.Done():
			return t.ctx.Err()
		case <-time.After(min(25*time.Millisecond, time.Until(deadline))):
		}
	}
}

// giveLeaseBack ends the renewal of the lease, and gives it back if the last write did not.
func (t *turn) giveLeaseBack() {
	t.renewal.stop()
	if t.released {
		return
	}
	w := session.Write{Lease: t.lease, Abandon: t.abandonsLease(context.Cause(t.ctx))}
	w.Release = !w.Abandon
	_, err := t.r.store.Write(context.WithoutCancel(t.ctx), t.key, w)
	if err != nil && !errors.Is(err, agent.ErrConflict) {
		t.r.logger.Warn("the lease could not be given back", "session", t.key.String(), "error", err)
	}
}

// limitTime starts a timer that cancels the turn after Limits.Time. The caller stops the timer.
func (t *turn) limitTime() *time.Timer {
	d := t.r.limits.Time
	limit := &agent.LimitError{Name: "seconds of wall time", Limit: int64(d.Seconds())}
	if d%time.Second != 0 {
		limit = &agent.LimitError{Name: "milliseconds of wall time", Limit: d.Milliseconds()}
	}
	return time.AfterFunc(d, func() { t.cancel(limit) })
}

// renewal renews a lease in the background until it is stopped.
type renewal struct {
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
}

// keepLease starts to renew the lease.
func (t *turn) keepLease() {
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
		lease, err := t.r.store.Write(t.ctx, t.key, session.Write{Lease: t.lease})
		if err == nil {
			t.mu.Lock()
			t.confirmed, t.stop = asked, lease.Stop
			t.stopIfRequested()
			t.mu.Unlock()
		}
		if errors.Is(err, agent.ErrConflict) {
			t.cancel(err)
			return
		}
		if err != nil { // the next renewal may succeed before the lease ends
			t.r.logger.Warn("the lease could not be renewed", "session", t.key.String(), "error", err)
		}
		n.timer.Reset(session.LeaseTTL / 3)
	})
}

// stop ends the renewal, and waits for one that is under way.
func (n *renewal) stop() {
	n.timer.Stop()
	n.mu.Lock()
	n.stopped = true
	n.mu.Unlock()
}

// appendEvents stores events in one atomic write and applies them to the fold. It sets their positions, their times and
// missing ids.
func (t *turn) appendEvents(ctx context.Context, events []*event.Event) error {
	if len(events) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch err := context.Cause(ctx); {
	case decides(events), errors.Is(err, agent.ErrLimit):
		ctx = context.WithoutCancel(ctx) // decisions and finished work are stored; the next step ends the turn
	case err != nil:
		return err
	}
	if events = t.closer().ordered(events); len(events) == 0 {
		return errClosed
	}
	events = event.BoundAll(events)
	// All events of a write have the same time, which is later than that of the write before. Readers find the ends of
	// writes by it.
	now := t.r.now().UTC()
	if last := t.fold().Latest; !now.After(last) {
		now = last.Add(1)
	}
	for i, e := range events {
		e.Seq = t.fold().Seq + int64(i) + 1
		e.More = false
		e.Time = now
		e.Data = event.Canonical(e.Data)
		if _, ok := e.Data.(*event.ToolResult); ok {
			if c := t.fold().Scope(e.Scope).Run.Call(e.ID); c != nil {
				e.RunID = c.RunID // of the run that made the call, which a pause may have ended
			}
		}
		if e.ID == "" {
			e.ID = t.newID()
		}
	}
	w := session.Write{Events: events, Release: t.released}
	err := t.sendWrite(ctx, w)
	if err != nil && errors.Is(context.Cause(ctx), agent.ErrLimit) { // the limit canceled the write
		err = t.sendWrite(context.WithoutCancel(ctx), w)
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
		t.tally.noteStored(e)
		t.unstored.noteStored(e)
	}
	t.log = append(t.log, events...)
	t.stopIfRequested()
	return nil
}

// stopIfRequested cancels the turn if the last write has returned that a process requests it. The caller holds mu.
func (t *turn) stopIfRequested() {
	if t.cached != nil && t.fold().StopsAt(t.stop) {
		t.cancel(session.ErrStopped)
	}
}

// decides reports whether events contain the decision of a router. It is stored even if the turn was canceled
// meanwhile.
func decides(events []*event.Event) bool {
	return slices.ContainsFunc(events, func(e *event.Event) bool { _, ok := e.Data.(*event.Route); return ok })
}

// writeLast stores the last events of a turn, of which there are some, and gives the lease back in the same write.
// The cached session is back in the cache before another turn of this process looks
// for it there, and before the consumer gets the events, because it may begin the next turn then. Where
// snapshots are to be stored the lease is kept for them.
func (t *turn) writeLast(ctx context.Context, events []*event.Event) error {
	c := t.r.cache
	if t.r.snapshots && t.cached.snapshot.isDue(t.fold().Seq+int64(len(events)), t.r.snapshotEvery) || c.claim(ctx, t.key) != nil {
		return t.appendEvents(ctx, events)
	}
	defer c.unclaim(t.key)
	t.renewal.stop() // between the write and its answer a renewal would find that the lease is gone
	t.released = true
	if err := t.appendEvents(ctx, events); err != nil {
		t.released = false
		t.keepLease()
		return err
	}
	t.checkInSession()
	return nil
}

// storeSnapshot stores a snapshot of the session if one is due. The turn must still have the lease.
func (t *turn) storeSnapshot() {
	w := t.cached
	if !t.r.snapshots || !w.snapshot.isDue(w.fold.Seq, t.r.snapshotEvery) {
		return
	}
	data := t.encodeSnapshot()
	if data == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), snapshotTime)
	defer cancel()
	_, err := t.r.store.Write(ctx, t.key, session.Write{Lease: t.lease, Head: w.head(), Snapshot: session.Snapshot{Seq: w.fold.Seq, Data: data}})
	if err != nil && !errors.Is(err, agent.ErrConflict) {
		t.r.logger.Warn("the snapshot could not be stored", "session", t.key.String(), "error", err)
	}
}
