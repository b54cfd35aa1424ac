package live

import (
	"errors"
	"strings"

	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// tenure is a runner, with the turns that it still runs.
type tenure struct {
	seat
	turns int
	over  func()          // called once, after another runner has come and the last turn has ended; nil is nothing
	under map[string]seat // of parts of the tree, by their paths
}

// of returns the seat of a session's turns. It is called with the mutex.
func (t *Turns) of(key session.Key) (seat, error) {
	n := t.tenure
	path, part := strings.CutPrefix(key.App, t.app+":")
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
	s, err := t.seat(run)
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
func (t *Turns) Runner() *runner.Runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tenure.Runner
}

// RunnerOf returns the runner that the next turn of a session gets: that of the whole tree, or if
// the session's app is APP:PATH, where APP is that of [WithApp], that of the agent at a path such as
// support/billing and all below it. The error is runner.ErrNoAgent.
func (t *Turns) RunnerOf(key session.Key) (*runner.Runner, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.of(key)
	return s.Runner, err
}

// reader is the runner to look at a session with, also if its agent is gone.
func (t *Turns) reader(key session.Key) *runner.Runner {
	if run, err := t.RunnerOf(key); err == nil {
		return run
	}
	return t.Runner()
}

// canceler is what turns of a session are canceled with, also if its agent is gone.
func (t *Turns) canceler(key session.Key) Backend {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, err := t.of(key); err == nil {
		return s.backend
	}
	return t.tenure.backend
}

// Swap replaces the runner for turns that start from now on. The new runner may have another tree and must
// use the same store. A running turn ends with its runner; a turn that was cut off or waits resumes with
// the new one. Unless over is nil, a goroutine that [Turns.Close] waits for calls it when no turn uses the
// old runner any more. Swap returns [ErrClosed], or an error if the runner is nil; it does not call over
// then.
func (t *Turns) Swap(run *runner.Runner, over func()) error {
	if run == nil {
		return errors.New("live: the runner is nil")
	}
	seat, err := t.seat(run)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	old := t.tenure
	t.tenure, old.over = &tenure{seat: seat}, over
	t.release(old)
	t.prepare(run)
	return nil
}

// prepare has remote agents fetch their cards before a message needs them.
func (t *Turns) prepare(run *runner.Runner) { t.ended.Go(func() { run.Prepare(t.background) }) }

// release notices that a runner is not needed any more. It is called with the mutex.
func (t *Turns) release(old *tenure) {
	if old == t.tenure || old.turns > 0 || old.over == nil {
		return
	}
	over := old.over
	old.over = nil
	t.ended.Go(over)
}
