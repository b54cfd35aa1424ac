package live

import (
	"context"
	"time"

	"github.com/agentarbor/arbor/session"
)

// Lock serializes callers of this process that look at a session and then start something that depends on
// what they saw, such as whether a message was sent before. It waits until the holder of the lock calls
// unlock. If it has to wait, it first calls waits, unless that is nil, and returns its error. Lock does not
// exclude other processes; the store does: see runner.At.
func (t *Turns) Lock(ctx context.Context, key session.Key, waits func() error) (unlock func(), err error) {
	for first := true; ; first = false {
		t.mu.Lock()
		other := t.locked[key]
		if other == nil {
			free := make(chan struct{})
			t.locked[key] = free
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.locked, key)
				t.mu.Unlock()
				close(free)
			}, nil
		}
		t.mu.Unlock()
		if first && waits != nil {
			if err := waits(); err != nil {
				return nil, err
			}
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// WaitFree waits until a busy session may be free: until a turn of this process ends, a quarter of a second
// has passed (another process may hold the session, which sends no notification), or the deadline has
// passed.
func (t *Turns) WaitFree(ctx context.Context, key session.Key, deadline time.Time) error {
	done := make(<-chan struct{})
	if here := t.here(key); len(here) > 0 {
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
