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
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// turn is one user turn under way, the lease held. It is shared by the lanes
// that run in it: the conversation's, and those of inner scopes.
type turn struct {
	r      *Runner
	ctx    context.Context
	cancel context.CancelCauseFunc
	key    session.Key
	lease  session.Lease
	newID  func() string

	conversation lane     // runs it
	consumer     consumer // its outlet
	renewal      renewal

	mu     lock // guards what follows, and the warm session
	w      *warm
	log    []*event.Event   // what this turn has stored
	read   []*event.Event   // what comes before it, as far as it was just read
	room   [16]*event.Event // for a short log
	ids    idPool
	shown  []block           // blocks whose deltas were shown, but not yet the whole, by scope
	shared map[string]any    // state of user and app, nil until it is read
	asking map[string]amount // inner scopes whose model is asked, its answer not stored yet, and what is reserved for it

	held     time.Time  // when the store was last asked and said that the turn has the lease
	unleased bool       // the first write takes the lease
	released bool       // the last write gave the lease back
	lost     bool       // a write was refused: the lease was lost, or the log is not what the warm session says
	failed   error      // what the turn has ended with here
	known    bool       // how it stood when it left the session
	cut      bool       // it was not over then
	tells    *TurnState // is told how the turn stands when it leaves the session
	last     bool       // nobody tries the step again

	saved    map[string]int64   // the sizes of files that agents of this turn have saved, by digest
	passages map[string]passage // inner scopes that have a transfer under way

	delivered int                 // how much of log the consumer has; the conversation's lane only
	whole     map[string]struct{} // the blocks of inner scopes that it has to the end
	entered   map[string]bool     // inner scopes of before that go on in this turn, by mu
	recalled  []*event.Event      // results that a repeated decision asks for again
	resumed   bool                // the conversation's open run was cut off before this turn took it up
}

// lock guards a turn. Who still runs when the turn has left its session finds an empty one.
type lock struct {
	sync.Mutex
	left *turn // that has left, nil before
}

func (l *lock) Lock() {
	if l.Mutex.Lock(); l.left != nil && l.left.w == nil {
		l.left.w = &warm{key: l.left.key}
	}
}

// turn takes the lease, brings the session up to date, opens the turn with
// begin and lets run take its steps. A turn that is fresh begins with a message.
func (r *Runner) turn(ctx context.Context, key session.Key, fresh bool, yield func(*event.Event, error) bool, begin func(*turn) error, run func(*lane) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &turn{r: r, ctx: ctx, cancel: cancel, key: key, newID: r.newID}
	t.log = t.room[:0]
	if t.newID == nil {
		t.newID = t.ids.next
	}
	begun, err := t.beginUnleased(fresh, begin)
	if !begun && err == nil {
		t.held = time.Now()
		t.lease, err = r.acquire(ctx, key)
	}
	if err != nil {
		yield(nil, err)
		return
	}
	renewal := t.keepLease(key)
	defer func() {
		renewal.stop()
		if t.released {
			return
		}
		w := session.Write{Lease: t.lease, Abandon: t.abandons(context.Cause(ctx))}
		w.Release = !w.Abandon
		if _, err := r.store.Write(context.WithoutCancel(ctx), key, w); err != nil && !errors.Is(err, agent.ErrConflict) {
			r.logger.Warn("the lease could not be given back", "session", key.String(), "error", err)
		}
	}()
	if !begun {
		if err := t.take(key); err != nil {
			t.failed = err
			yield(nil, err)
			return
		}
	}
	defer t.leave()
	if r.limits.Time > 0 {
		limit := &agent.LimitError{Name: "seconds of wall time", Limit: int64(r.limits.Time.Seconds())}
		if r.limits.Time%time.Second != 0 {
			limit = &agent.LimitError{Name: "milliseconds of wall time", Limit: r.limits.Time.Milliseconds()}
		}
		timer := time.AfterFunc(r.limits.Time, func() { cancel(limit) })
		defer timer.Stop()
	}
	if !begun {
		if err := begin(t); err != nil {
			yield(nil, err)
			return
		}
	}
	l := &t.conversation
	*l = lane{t: t, session: t, ctx: ctx, cancel: cancel, tree: r.tree, again: t.resumed}
	l.joined = l.room[:0]
	t.consumer = consumer{t, yield}
	l.outlet = &t.consumer
	for _, e := range t.recalled {
		if !l.hand(e, yield) {
			return
		}
	}
	if !l.deliver() {
		return
	}
	if err := run(l); err != nil && !l.stopped {
		t.failed = err
		yield(nil, err)
	}
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
func (t *turn) beginUnleased(fresh bool, begin func(*turn) error) (begun bool, err error) {
	c := t.r.cache
	if !fresh {
		return false, nil
	}
	if t.w = c.takeIf(t.key, (*warm).rests); t.w == nil {
		return false, nil
	}
	t.lease, t.unleased = session.Lease{Head: t.w.head(), Incarnation: t.w.born}, true
	defer func() {
		if t.unleased {
			c.put(t.w)
			t.w, t.lease, t.unleased, t.lost = nil, session.Lease{}, false, false
		}
	}()
	if err = begin(t); err == nil && !t.unleased {
		c.has(t.key, t)
		return true, nil
	}
	if t.failed != nil {
		return false, err
	}
	return false, nil // with the lease it may be otherwise
}

// send makes a write where the log ends.
func (t *turn) send(ctx context.Context, w session.Write) error {
	w.Head, w.Lease = t.w.head(), t.lease
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
		t.lease, t.unleased, t.w.born = lease, false, lease.Incarnation
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
	if t.w, err = t.r.warm(t.ctx, key, &t.lease); err == nil {
		t.read, t.w.tail, t.w.fork = t.w.tail, nil, t.lease.Fork
		c.has(key, t)
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
	w, c := t.w, t.r.cache
	t.known, t.cut = true, w.fold.Unfinished()
	if t.tells != nil {
		*t.tells = turnStateOf(&w.fold)
	}
	t.w, t.mu.left = nil, t
	if !t.lost {
		c.put(w)
	}
	if c.turn(w.key) == t { // else another one has taken the lease over
		c.has(w.key, nil)
	}
}

// complete notes that no delta of an inner scope's block may follow any more.
func (t *turn) complete(e *event.Event) {
	if e.Scope == "" || !t.r.streaming {
		return
	}
	var ids []string
	switch d := e.Data.(type) {
	case *event.Text, *event.Reasoning:
		ids = []string{e.ID}
	case *event.Discard:
		ids = d.IDs
	}
	for _, id := range ids {
		if t.whole == nil {
			t.whole = make(map[string]struct{})
		}
		t.whole[id] = struct{}{}
	}
}

func (r *Runner) acquire(ctx context.Context, key session.Key) (session.Lease, error) {
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

// begin stores the user's event, after closing what the last turn left open,
// and starts the active agent: all in one write.
func (t *turn) begin(msg llm.Message, o turnOptions) error {
	switch known, err := t.knows(o); {
	case err != nil || known && o.stays:
		return err
	case known:
		return t.resume(nil)
	}
	err := t.expect(o)
	if err == nil && !o.person {
		err = t.fits(&msg)
	}
	if err == nil {
		err = t.branch()
	}
	if err != nil {
		return err
	}
	conversation := t.w.fold.Scope("")
	last := conversation.LastEnd
	if conversation.Run.Open {
		last = conversation.Run.ID
	}
	// Nobody goes on with tasks of inner scopes.
	inner, gone := t.cancelRemote(func(r session.Remote) bool { return r.Scope != "" })
	events := t.closing(interrupted)
	events = append(inner, events...)
	if t.w.fold.Held() {
		events = t.closeScope(events, "", withdrawn)
	}
	events = slices.Grow(events, 2)
	user := &event.Event{TurnID: t.turnID(o), RunID: t.newID(), Agent: "user", Data: &event.User{Content: msg.Content.Stored(), Metadata: o.metadata}}
	switch turn := &t.w.fold.Turn; {
	case turn.ID != "" && turn.ID != conversation.Run.TurnID: // nobody answered the message before
		user.ParentID = turn.UserRunID + ":user"
	case last != "":
		user.ParentID = endNode(last)
	}
	events = append(events, user)
	if len(o.state) > 0 { // behind the user event, which ends the state of the turn before
		events = append(events, &event.Event{TurnID: user.TurnID, RunID: user.RunID, Agent: user.Agent, Data: &event.State{Delta: o.state}})
	}
	events = t.answer(events, user.TurnID, user.RunID)
	first := len(events)
	if o.person {
		if events, err = t.callPerson(events, o.reason); err != nil {
			return err
		}
	}
	for _, d := range gone { // no run of theirs is open
		e := *events[first-1]
		e.ParentID, e.Data = "", d
		events = slices.Insert(events, first, &e)
	}
	return t.append(t.ctx, events)
}

// answer starts the agent that answers a user event.
func (t *turn) answer(events []*event.Event, turnID, userRunID string) []*event.Event {
	n, missing := t.r.active(&t.w.fold)
	if missing {
		events = append(events, &event.Event{TurnID: turnID, RunID: userRunID, Agent: "user", Data: &event.Notice{Code: "agent_gone",
			Message: fmt.Sprintf("the agent %q is no longer in the tree: %s answers", t.w.fold.Scope("").Active, n.Agent.Name())}})
	}
	return append(events, t.start(n, turnID, userRunID+":user", "", nil))
}

// resume takes up a turn that was cut off, or one that waits for decisions. The open run
// goes on in run, and inner scopes when who has opened them runs again.
func (t *turn) resume(decisions []Decision) error {
	f := &t.w.fold
	if len(decisions) > 0 || f.Held() || len(t.stayed()) > 0 {
		return t.decide(decisions)
	}
	if !f.Unfinished() {
		return nil
	}
	if f.Scope("").Run.Open {
		t.resumed = true
		if err := t.branch(); err != nil {
			return err
		}
	}
	return t.append(t.ctx, t.takenUp())
}

// takenUp makes the notices that open runs go on here, in all scopes, if a budget of time has
// to know since when nothing ran.
func (t *turn) takenUp() (events []*event.Event) {
	if !t.r.budgeted.time {
		return nil
	}
	for _, scope := range append([]string{""}, t.w.fold.Inner()...) {
		run := &t.w.fold.Scope(scope).Run
		if !run.Open || scope != "" && t.past(run) {
			continue
		}
		events = append(events, &event.Event{TurnID: run.TurnID, RunID: run.ID, Scope: scope, Agent: run.Agent, Path: run.Path,
			Data: &event.Notice{Code: event.NoticeResumed, Message: "the run goes on here"}})
	}
	return events
}

// start makes the event that opens a run.
func (t *turn) start(n *agent.Node, turnID, parentID, scope string, input []byte) *event.Event {
	data := t.r.fixedOf(n).start
	if input != nil {
		data = &event.HarnessStart{AgentID: n.Agent.Name(), Input: input}
	}
	return &event.Event{TurnID: turnID, RunID: t.newID(), Scope: scope, ParentID: parentID, Agent: n.Agent.Name(), Path: n.Path, Data: data}
}

func endNode(runID string) string { return runID + ":harness_end" }

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
	if events = t.ordered(events); len(events) == 0 {
		return errClosed
	}
	// Times never go back, and no two writes have the same: a position where the
	// time changes is the end of a write.
	events = event.BoundAll(events)
	now := t.r.now().UTC()
	if last := t.w.fold.Latest; !now.After(last) {
		now = last.Add(1)
	}
	for i, e := range events {
		e.Seq = t.w.fold.Seq + int64(i) + 1
		e.More = false
		e.Time = now
		e.Data = event.Canonical(e.Data)
		if _, ok := e.Data.(*event.ToolResult); ok {
			if c := t.w.fold.Scope(e.Scope).Run.Call(e.ID); c != nil {
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
		t.w.apply(e)
		t.updateShared(e)
		t.account(e)
		t.settle(e)
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
	if t.r.snapshots && t.w.kept.due(t.w.fold.Seq+int64(len(events)), t.r.every) || c.enter(ctx, key) != nil {
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
