package tail

import (
	"context"
	"time"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/following"
)

// follower is one call of Follow. Its position is that of log.
type follower struct {
	*Tail
	s     *stream
	log   following.LogReader
	yield func(session.Entry, error) bool

	deletions int
}

func (f *follower) run(ctx context.Context) error {
	f.deletions = f.s.after(session.Position{}).deletions
	timer := time.NewTimer(f.poll)
	defer timer.Stop()
	for look := true; ; {
		more := false
		if look {
			version, ok := f.s.beginPoll()
			seq, full, err := f.log.Look(ctx)
			if err != nil {
				return err
			}
			if more = full; ok {
				f.s.endPoll(seq, version)
			}
		}
		changed, stopped, err := f.deliver(ctx)
		if stopped || err != nil {
			return err
		}
		if look = more; look {
			continue
		}
		select {
		case <-changed:
		case <-timer.C:
			look = !f.s.holdsLease()
			timer.Reset(f.poll)
		case <-ctx.Done():
			return ctx.Err()
		case <-f.closed:
			return errClosed
		}
	}
}

// deliver yields all entries that are available. It returns a channel that is closed when there are more.
func (f *follower) deliver(ctx context.Context) (changed <-chan struct{}, stopped bool, err error) {
	for {
		state := f.s.after(f.log.Position)
		if state.deletions != f.deletions {
			if err := f.checkShown(ctx); err != nil {
				return nil, false, err
			}
			f.deletions = state.deletions
		}
		// If the log is longer, no more partial events are published at this position.
		if state.part == 0 && f.log.Seq >= state.seq {
			return state.changed, false, nil
		}
		if err := f.checkOpen(ctx); err != nil {
			return nil, false, err
		}
		if state.part > 0 {
			if f.log.Part = state.part; !f.yield(state.next, nil) {
				return nil, true, nil
			}
			continue
		}
		e, err := f.log.Next(ctx)
		if e.Event == nil || err != nil { // nil: the session was just deleted, which the next poll detects
			return state.changed, false, err
		}
		if !f.yield(e, nil) {
			return nil, true, nil
		}
	}
}

// checkShown returns [following.ErrGone] if the log no longer contains what the follower has yielded.
func (f *follower) checkShown(ctx context.Context) error {
	if f.log.Part > 0 {
		return following.ErrGone
	}
	_, _, err := f.log.Look(ctx)
	return err
}

// checkOpen returns an error if the tail was closed or the context has ended.
func (f *follower) checkOpen(ctx context.Context) error {
	if f.isClosed() {
		return errClosed
	}
	return ctx.Err()
}
