package live

import (
	"errors"

	"github.com/agentarbor/arbor/runner"
)

// tenure is a runner, with the turns that it still runs.
type tenure struct {
	run   *runner.Runner
	turns int
	over  func() // called once, after another runner has come and the last turn has ended; nil is nothing
}

// Swap gives the turns that begin from now on another runner, of another tree, which must be on
// the same store. A turn that runs ends with the runner it has; one that was cut off or that
// waits goes on with the new one. The function over, unless it is nil, is called when no turn has
// the runner that was replaced any more, by a goroutine that [Turns.Close] waits for. The error is
// [ErrClosed], or that there is no runner; over is not called then.
func (t *Turns) Swap(run *runner.Runner, over func()) error {
	if run == nil {
		return errors.New("live: the runner is nil")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	old := t.tenure
	t.tenure, old.over = &tenure{run: run}, over
	t.release(old)
	return nil
}

// release notices that a runner is not needed any more. It is called with the mutex.
func (t *Turns) release(old *tenure) {
	if old == t.tenure || old.turns > 0 || old.over == nil {
		return
	}
	over := old.over
	old.over = nil
	t.ended.Go(over)
}
