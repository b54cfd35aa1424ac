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

	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// registry is the state of this process: the runner for new turns, the running turns, and the clients that watch
// them. It does not read logs.
type registry struct {
	limit    *access.Limit
	app      string                       // the app of the sessions of the whole tree
	backends func(*runner.Runner) Backend // nil for the runner itself
	observer access.Observer              // nil without one
	changes  changes

	background context.Context // the parent context of all turns
	stop       context.CancelCauseFunc
	ended      sync.WaitGroup

	mu      sync.Mutex   // guards the fields below
	current *runnerUse   // the runner for new turns
	lent    []*runnerUse // the runners of single sessions, the oldest first
	closed  bool
	drains  bool // no new turns start
	running map[session.Key][]*Turn
	// The watchers of turns, which are canceled when the turn is stopped. A watcher with true is a client.
	watchers map[session.Key]map[*context.CancelCauseFunc]bool
}

func (r *registry) init() {
	r.limit, r.app = access.NewLimit(32, 256), session.DefaultApp
	r.running = make(map[session.Key][]*Turn)
	r.watchers = make(map[session.Key]map[*context.CancelCauseFunc]bool)
	r.changes.waiting = make(map[owner]map[chan struct{}]struct{})
}

// runnerUse is a runner and the turns that still use it.
type runnerUse struct {
	runnerBackend
	turns int
	over  func()                   // called once after the runner was replaced and its last turn has ended; may be nil
	only  session.Key              // the only session that uses the runner; zero: all sessions without one of their own
	under map[string]runnerBackend // the runners of parts of the tree, by path
}

// of returns the runner and the backend of a session's turns. The caller holds the mutex.
func (r *registry) of(key session.Key) (runnerBackend, error) {
	n := r.useOf(key)
	if n.only == key {
		return n.runnerBackend, nil
	}
	path, part := strings.CutPrefix(key.App, r.app+":")
	if !part {
		return n.runnerBackend, nil
	}
	if s, ok := n.under[path]; ok {
		return s, nil
	}
	run, err := n.Under(path)
	if err != nil {
		return runnerBackend{}, err
	}
	s, err := r.withBackend(run)
	if err != nil {
		return runnerBackend{}, err
	}
	if n.under == nil {
		n.under = make(map[string]runnerBackend)
	}
	n.under[path] = s
	return s, nil
}

// Runner returns the runner of the whole tree for new turns.
func (r *registry) Runner() *runner.Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.Runner
}

// RunnerOf returns the runner for the next turn of a session. If the session's app is APP:PATH, where APP is the app
// of [WithApp], it is the runner of the agent at the path, such as support/billing, and all agents below it.
// Otherwise it is the runner of the whole tree. If the tree has no such path, the error is runner.ErrNoAgent.
func (r *registry) RunnerOf(key session.Key) (*runner.Runner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.of(key)
	return s.Runner, err
}

// reader returns the runner that reads a session. If the session's agent no longer exists, it is the runner of the
// whole tree.
func (r *registry) reader(key session.Key) *runner.Runner {
	if run, err := r.RunnerOf(key); err == nil {
		return run
	}
	return r.Runner()
}

// canceler returns the backend that cancels turns of a session. If the session's agent no longer exists, it is that
// of the whole tree.
func (r *registry) canceler(key session.Key) Backend {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, err := r.of(key); err == nil {
		return s.backend
	}
	return r.current.backend
}

// maxLent is the number of sessions that can have a runner of their own.
const maxLent = 16

// Lend sets another runner for the turns of one session that start or resume in this process from now on, such as for
// a fork that tries a changed tree. The runner must use the same store. After Lend was called for 16 other sessions,
// the session gets the common runner again. When no turn uses the lent runner any more, also because the server
// stops, over is called in a goroutine that [Turns.Close] waits for. Lend returns [ErrClosed], or an error if the
// runner or over is nil; it does not call over then.
func (r *registry) Lend(key session.Key, run *runner.Runner, over func()) error {
	if run == nil || over == nil {
		return errors.New("live: the lent runner or the function over is nil")
	}
	with, err := r.withBackend(run)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	i := slices.IndexFunc(r.lent, func(n *runnerUse) bool { return n.only == key })
	if i < 0 && len(r.lent) == maxLent {
		i = 0
	}
	if i >= 0 {
		old := r.lent[i]
		r.lent = slices.Delete(r.lent, i, i+1)
		r.release(old)
	}
	r.lent = append(r.lent, &runnerUse{runnerBackend: with, over: over, only: key})
	return nil
}

// useOf returns the runner for the turns of a session. The caller holds the mutex.
func (r *registry) useOf(key session.Key) *runnerUse {
	for _, n := range r.lent {
		if n.only == key {
			return n
		}
	}
	return r.current
}

// Swap replaces the runner for turns that start from now on. The new runner may have another tree and must use the
// same store. A running turn keeps its runner; a turn that was interrupted or waits resumes with the new one. When no
// turn uses the old runner any more, over is called in a goroutine that [Turns.Close] waits for, unless over is nil.
// Swap returns [ErrClosed], or an error if the runner is nil; it does not call over then.
func (r *registry) Swap(run *runner.Runner, over func()) error {
	if run == nil {
		return errors.New("live: the runner is nil")
	}
	with, err := r.withBackend(run)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	old := r.current
	r.current, old.over = &runnerUse{runnerBackend: with}, over
	r.release(old)
	r.prepare(run)
	return nil
}

// prepare makes remote agents fetch their agent cards before a message needs them.
func (r *registry) prepare(run *runner.Runner) { r.ended.Go(func() { run.Prepare(r.background) }) }

// release calls over if the runner is no longer used. The caller holds the mutex.
func (r *registry) release(old *runnerUse) {
	if old == r.current || old.turns > 0 || old.over == nil || slices.Contains(r.lent, old) {
		return
	}
	over := old.over
	old.over = nil
	r.ended.Go(over)
}

// enter registers a turn. It refuses the turn if the limits of its user or of all users are reached, because a client
// that does not wait for answers could start any number of turns.
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

// count counts a turn in the limits until it leaves. A turn that no client requested does not wait for its place.
func (r *registry) count(ctx context.Context, x *Turn) error {
	if x.automatic {
		return r.limit.Enter(x.key.User)
	}
	return r.limit.Await(ctx, x.key.User)
}

// add registers a turn. The caller holds the mutex.
func (r *registry) add(x *Turn) {
	r.ended.Add(1)
	x.use = r.useOf(x.key)
	x.use.turns++
	if r.observer != nil {
		r.observer.Running(context.Background(), x.api, 1)
	}
	r.running[x.key] = append(r.running[x.key], x)
}

func (r *registry) exit(x *Turn) {
	r.mu.Lock()
	rest := slices.DeleteFunc(r.running[x.key], func(o *Turn) bool { return o == x })
	if r.running[x.key] = rest; len(rest) == 0 {
		delete(r.running, x.key)
	}
	x.use.turns--
	if r.observer != nil {
		r.observer.Running(context.Background(), x.api, -1)
	}
	r.release(x.use)
	r.mu.Unlock()
	if x.counts {
		r.limit.Leave(x.key.User)
	}
	r.changes.changed(x.key)
	r.ended.Done()
}

// runningTurns returns the turns of a session that this process runs or is starting.
func (r *registry) runningTurns(key session.Key) []*Turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.running[key])
}

// withBackend returns a runner with its backend.
func (r *registry) withBackend(run *runner.Runner) (s runnerBackend, err error) {
	s = runnerBackend{run, run}
	if r.backends != nil {
		if s.backend = r.backends(run); s.backend == nil {
			return runnerBackend{}, errors.New("live: the function of WithBackend returned nil")
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

// oneRunning returns one of the running turns, or nil, and their number.
func (r *registry) oneRunning() (one *Turn, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, turns := range r.running {
		one = turns[0]
		all += len(turns)
	}
	return one, all
}

// Drain refuses new turns with [ErrClosed] and waits until the running turns have ended. If the context ends first,
// Drain returns an error, and the turns that still run continue until [Turns.Close]. Followers are not affected.
func (r *registry) Drain(ctx context.Context) error {
	r.mu.Lock()
	r.drains = true
	r.mu.Unlock()
	for {
		x, left := r.oneRunning()
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

// OnStop registers a function that is called in a goroutine of its own when a turn of the session is stopped, until leave
// is called. Stops at other processes are noticed only while a client of this process follows the session.
func (r *registry) OnStop(key session.Key, stopped func()) (leave func()) {
	return r.watching(key, func(cause error) {
		if cause != nil {
			go stopped()
		}
	}, false)
}

// watching registers a watcher, which is canceled when the session's turn is stopped, until leave is called.
// counts says that the watcher is a client, for which [Turns.Abandon] leaves the turn running.
func (r *registry) watching(key session.Key, cancel context.CancelCauseFunc, counts bool) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers[key] == nil {
		r.watchers[key] = make(map[*context.CancelCauseFunc]bool)
	}
	r.watchers[key][&cancel] = counts
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.watchers[key], &cancel); len(r.watchers[key]) == 0 {
			delete(r.watchers, key)
		}
		cancel(nil)
	}
}

// WaitFree waits until a busy session may be free: a turn of this process has ended, a quarter of a second has passed
// (another process sends no notification when it releases a session), or the deadline has passed. If the context ends
// first, it returns the context's cause.
func (r *registry) WaitFree(ctx context.Context, key session.Key, deadline time.Time) error {
	done := make(<-chan struct{})
	if here := r.runningTurns(key); len(here) > 0 {
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

// Close cancels all turns and followers, and waits for them until the context ends. It abandons the leases of
// canceled turns (see session.Write), so that another process can adopt these turns at once. If the context ends
// first, Close returns an error. A second call does nothing.
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

// join registers a turn without checking limits, and returns the turns that already run.
func (r *registry) join(x *Turn) (running []*Turn, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	running = slices.Clone(r.running[x.key])
	r.add(x)
	return running, nil
}

// watched reports whether a client watches the turn of a session.
func (r *registry) watched(key session.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(slices.Collect(maps.Values(r.watchers[key])), true)
}

// notifyWatchers cancels the watchers of a session with session.ErrStopped.
func (r *registry) notifyWatchers(key session.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.watchers[key] {
		(*cancel)(session.ErrStopped)
	}
}
