package live

import (
	"context"
	"fmt"
)

// Drain refuses new turns with [ErrClosed] and waits until the running ones have ended. It returns an error
// if the context ends first; the turns that still run then continue until [Turns.Close]. Followers are not
// affected.
func (t *Turns) Drain(ctx context.Context) error {
	t.mu.Lock()
	t.drains = true
	t.mu.Unlock()
	for {
		x, left := t.atWork()
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

// Stopping reports whether new turns are refused, because of [Turns.Drain] or [Turns.Close].
func (t *Turns) Stopping() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drains || t.closed
}

// atWork returns a turn that is at work, nil if none is, and how many are.
func (t *Turns) atWork() (one *Turn, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, turns := range t.running {
		one = turns[0]
		all += len(turns)
	}
	return one, all
}

// Close cancels all turns and followers, and waits for them until the context ends. It abandons the leases
// of cancelled turns (see session.Write), so that another process can adopt these turns at once. Closing
// twice does nothing.
func (t *Turns) Close(ctx context.Context) error {
	t.mu.Lock()
	closed := t.closed
	t.closed = true
	t.mu.Unlock()
	if closed {
		return nil
	}
	t.stop(ErrClosed)
	done := make(chan struct{})
	go func() {
		t.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("live: not all turns have ended: %w", context.Cause(ctx))
	}
}
