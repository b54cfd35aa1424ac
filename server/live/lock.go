package live

import (
	"context"
	"sync"

	"github.com/agentarbor/arbor/session"
)

// locks contains a lock for each session.
type locks struct {
	heldMu sync.Mutex
	held   map[session.Key]chan struct{} // each is closed by its unlock
}

// Lock serializes callers of this process that read a session and then start something that depends on what they
// read, such as whether a message was sent before. It waits until the holder of the lock calls unlock. If it must
// wait, it first calls waits, unless that is nil, and returns its error. If the context ends first, it returns the
// context's cause. Lock does not exclude other processes. For them use runner.At, which the store checks.
func (l *locks) Lock(ctx context.Context, key session.Key, waits func() error) (unlock func(), err error) {
	for first := true; ; first = false {
		l.heldMu.Lock()
		other := l.held[key]
		if other == nil {
			free := make(chan struct{})
			l.held[key] = free
			l.heldMu.Unlock()
			return func() {
				l.heldMu.Lock()
				delete(l.held, key)
				l.heldMu.Unlock()
				close(free)
			}, nil
		}
		l.heldMu.Unlock()
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
