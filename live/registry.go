package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// registry is what this process runs now: the runner that new turns get, the turns that run, who watches them, and which
// were stopped. It knows nothing of logs.
type registry struct {
	limit    *access.Limit
	app      string                       // of the sessions of the whole tree
	backends func(*runner.Runner) Backend // nil for the runner itself
	observer access.Observer              // nil without one
	changes  changes

	background context.Context // of all turns
	stop       context.CancelCauseFunc
	ended      sync.WaitGroup

	mu      sync.Mutex // guards what follows
	tenure  *tenure    // of the runner that new turns get
	lent    []*tenure  // of sessions that have a runner of their own, the oldest first
	closed  bool
	drains  bool // no turn is begun any more
	running map[session.Key][]*Turn
	stopped map[session.Key]struct{} // not to be taken up
	// Who watches a turn, and is told when it is stopped.
	watchers map[session.Key]map[*context.CancelCauseFunc]bool
}

func (r *registry) init() {
	r.limit, r.app = access.NewLimit(32, 256), session.DefaultApp
	r.running, r.stopped = make(map[session.Key][]*Turn), make(map[session.Key]struct{})
	r.watchers = make(map[session.Key]map[*context.CancelCauseFunc]bool)
	r.changes.waiting = make(map[owner]map[chan struct{}]struct{})
}

// tenure is a runner, with the turns that it still runs.
type tenure struct {
	seat
	turns int
	over  func()          // called once, after another runner has come and the last turn has ended; nil is nothing
	only  session.Key     // whose runner this is, the zero value of all others
	under map[string]seat // of parts of the tree, by their paths
}

// of returns the seat of a session's turns. It is called with the mutex.
func (r *registry) of(key session.Key) (seat, error) {
	n := r.tenureOf(key)
	if n.only == key {
		return n.seat, nil
	}
	path, part := strings.CutPrefix(key.App, r.app+":")
	if !part {
		return n.seat, nil
	}
	if s, ok := n.under[path]; ok {
		return s, nil
	}
	run, err := n.Under(path)
	if err != nil {
		return seat{}, err
	}
	s, err := r.seat(run)
	if err != nil {
		return seat{}, err
	}
	if n.under == nil {
		n.under = make(map[string]seat)
	}
	n.under[path] = s
	return s, nil
}

// Runner returns the runner of the whole tree that the next turn gets.
func (r *registry) Runner() *runner.Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tenure.Runner
}

// RunnerOf returns the runner that the next turn of a session gets: that of the whole tree, or if
// the session's app is APP:PATH, where APP is that of [WithApp], that of the agent at a path such as
// support/billing and all below it. The error is runner.ErrNoAgent.
func (r *registry) RunnerOf(key session.Key) (*runner.Runner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.of(key)
	return s.Runner, err
}

// reader is the runner to look at a session with, also if its agent is gone.
func (r *registry) reader(key session.Key) *runner.Runner {
	if run, err := r.RunnerOf(key); err == nil {
		return run
	}
	return r.Runner()
}

// canceler is what turns of a session are canceled with, also if its agent is gone.
func (r *registry) canceler(key session.Key) Backend {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, err := r.of(key); err == nil {
		return s.backend
	}
	return r.tenure.backend
}

// lends is the number of sessions that have a runner of their own.
const lends = 16

// Lend has another runner run the turns of one session that start or resume from now on in this process, such as a fork
// that tries a changed tree. The runner must use the same store. The session gets the runner of all others again after
// Lend was called for 16 other sessions. A goroutine that [Turns.Close] waits for calls over when no turn uses the lent
// runner any more, also when the server stops. Lend returns [ErrClosed], or an error if the runner or over is nil; it
// does not call over then.
func (r *registry) Lend(key session.Key, run *runner.Runner, over func()) error {
	if run == nil || over == nil {
		return errors.New("live: the lent runner or what ends it is nil")
	}
	seat, err := r.seat(run)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	i := slices.IndexFunc(r.lent, func(n *tenure) bool { return n.only == key })
	if i < 0 && len(r.lent) == lends {
		i = 0
	}
	if i >= 0 {
		old := r.lent[i]
		r.lent = slices.Delete(r.lent, i, i+1)
		r.release(old)
	}
	r.lent = append(r.lent, &tenure{seat: seat, over: over, only: key})
	return nil
}

// tenureOf returns the tenure of the turns of a session. It is called with the mutex.
func (r *registry) tenureOf(key session.Key) *tenure {
	for _, n := range r.lent {
		if n.only == key {
			return n
		}
	}
	return r.tenure
}

// Swap replaces the runner for turns that start from now on. The new runner may have another tree and must
// use the same store. A running turn ends with its runner; a turn that was cut off or waits resumes with
// the new one. Unless over is nil, a goroutine that [Turns.Close] waits for calls it when no turn uses the
// old runner any more. Swap returns [ErrClosed], or an error if the runner is nil; it does not call over
// then.
func (r *registry) Swap(run *runner.Runner, over func()) error {
	if run == nil {
		return errors.New("live: the runner is nil")
	}
	seat, err := r.seat(run)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	old := r.tenure
	r.tenure, old.over = &tenure{seat: seat}, over
	r.release(old)
	r.prepare(run)
	return nil
}

// prepare has remote agents fetch their cards before a message needs them.
func (r *registry) prepare(run *runner.Runner) { r.ended.Go(func() { run.Prepare(r.background) }) }

// release notices that a runner is not needed any more. It is called with the mutex.
func (r *registry) release(old *tenure) {
	if old == r.tenure || old.turns > 0 || old.over == nil || slices.Contains(r.lent, old) {
		return
	}
	over := old.over
	old.over = nil
	r.ended.Go(over)
}

// enter registers a turn, unless its user has too many at work, or all users have: a client that does
// not wait for answers could begin any number of them.
func (r *registry) enter(ctx context.Context, x *Turn) error {
	if r.Stopping() {
		return ErrClosed
	}
	if err := r.count(ctx, x); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.of(x.key)
	if r.closed || r.drains {
		err = ErrClosed
	}
	if err != nil {
		r.limit.Leave(x.key.User)
		return err
	}
	x.backend = s.backend
	r.add(x)
	return nil
}

// count takes a place for a turn, until it is left. A turn that no client asked for does not wait.
func (r *registry) count(ctx context.Context, x *Turn) error {
	if x.takesUp {
		return r.limit.Enter(x.key.User)
	}
	return r.limit.Await(ctx, x.key.User)
}

// add registers a turn. It is called with the mutex.
func (r *registry) add(x *Turn) {
	r.ended.Add(1)
	x.tenure = r.tenureOf(x.key)
	x.tenure.turns++
	if r.observer != nil {
		r.observer.Running(context.Background(), x.door, 1)
	}
	r.running[x.key] = append(r.running[x.key], x)
}

func (r *registry) exit(x *Turn) {
	r.mu.Lock()
	rest := slices.DeleteFunc(r.running[x.key], func(o *Turn) bool { return o == x })
	if r.running[x.key] = rest; len(rest) == 0 {
		delete(r.running, x.key)
	}
	x.tenure.turns--
	if r.observer != nil {
		r.observer.Running(context.Background(), x.door, -1)
	}
	r.release(x.tenure)
	r.mu.Unlock()
	if x.counts {
		r.limit.Leave(x.key.User)
	}
	r.changes.changed(x.key)
	r.ended.Done()
}

// here returns the turns of a session that this process runs, or tries to.
func (r *registry) here(key session.Key) []*Turn {
	running, _ := r.state(key)
	return running
}

// seat makes the seat of a runner.
func (r *registry) seat(run *runner.Runner) (s seat, err error) {
	s = seat{run, run}
	if r.backends != nil {
		if s.backend = r.backends(run); s.backend == nil {
			return seat{}, errors.New("live: the function of WithBackend returned none")
		}
	}
	return s, nil
}

// Stopping reports whether new turns are refused, because of [Turns.Drain] or [Turns.Close].
func (r *registry) Stopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drains || r.closed
}

// atWork returns a turn that is at work, nil if none is, and how many are.
func (r *registry) atWork() (one *Turn, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, turns := range r.running {
		one = turns[0]
		all += len(turns)
	}
	return one, all
}

// Drain refuses new turns with [ErrClosed] and waits until the running ones have ended. It returns an error
// if the context ends first; the turns that still run then continue until [Turns.Close]. Followers are not
// affected.
func (r *registry) Drain(ctx context.Context) error {
	r.mu.Lock()
	r.drains = true
	r.mu.Unlock()
	for {
		x, left := r.atWork()
		if x == nil {
			return nil
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			return fmt.Errorf("live: %d turns have not ended: %w", left, context.Cause(ctx))
		}
	}
}

// OnStop registers a function that is called in a goroutine of its own when a turn of the session is
// stopped here, until leave is called. Stopping stores no event, so that followers of the session would not
// see it.
func (r *registry) OnStop(key session.Key, stopped func()) (leave func()) {
	return r.watching(key, func(cause error) {
		if cause != nil {
			go stopped()
		}
	}, false)
}

// watching notes who is to hear when the session's turn is stopped, until leave is called. If it
// is they hear at once. They count if a turn whose client has gone is left alone for them.
func (r *registry) watching(key session.Key, cancel context.CancelCauseFunc, counts bool) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers[key] == nil {
		r.watchers[key] = make(map[*context.CancelCauseFunc]bool)
	}
	r.watchers[key][&cancel] = counts
	if _, stopped := r.stopped[key]; stopped && len(r.running[key]) == 0 {
		cancel(ErrStopped)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.watchers[key], &cancel); len(r.watchers[key]) == 0 {
			delete(r.watchers, key)
		}
		cancel(nil)
	}
}

// WaitFree waits until a busy session may be free: until a turn of this process ends, a quarter of a second
// has passed (another process may hold the session, which sends no notification), or the deadline has
// passed.
func (r *registry) WaitFree(ctx context.Context, key session.Key, deadline time.Time) error {
	done := make(<-chan struct{})
	if here := r.here(key); len(here) > 0 {
		done = here[0].done
	}
	timer := time.NewTimer(min(250*time.Millisecond, time.Until(deadline)))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Close cancels all turns and followers, and waits for them until the context ends. It abandons the leases
// of cancelled turns (see session.Write), so that another process can adopt these turns at once. Closing
// twice does nothing.
func (r *registry) Close(ctx context.Context) error {
	r.mu.Lock()
	closed := r.closed
	r.closed = true
	lent := r.lent
	r.lent = nil
	for _, n := range lent {
		r.release(n)
	}
	r.mu.Unlock()
	if closed {
		return nil
	}
	r.stop(ErrClosed)
	done := make(chan struct{})
	go func() {
		r.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("live: not all turns have ended: %w", context.Cause(ctx))
	}
}

// state returns the turns of a session that this process runs, or tries to, and whether its turn was stopped here.
func (r *registry) state(key session.Key) (running []*Turn, stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, stopped = r.stopped[key]
	return slices.Clone(r.running[key]), stopped
}

// join registers a turn, without a limit, and returns those that run already.
func (r *registry) join(x *Turn) (running []*Turn, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	delete(r.stopped, x.key)
	running = slices.Clone(r.running[x.key])
	r.add(x)
	return running, nil
}

// markStopped records that this process does not resume the turn of a session by itself, until forgetStopped.
func (r *registry) markStopped(key session.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped[key] = struct{}{}
}

// forgetStopped removes the mark of markStopped, and reports whether there was one.
func (r *registry) forgetStopped(key session.Key) (stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, stopped = r.stopped[key]
	delete(r.stopped, key)
	return stopped
}

// watched reports whether a client watches the turn of a session.
func (r *registry) watched(key session.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(slices.Collect(maps.Values(r.watchers[key])), true)
}

// tellWatchers cancels the watchers of a session with ErrStopped.
func (r *registry) tellWatchers(key session.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.watchers[key] {
		(*cancel)(ErrStopped)
	}
}
