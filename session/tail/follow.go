package tail

import (
	"context"
	"time"

	"github.com/agentarbor/arbor/session"
)

// follower is one call of Follow. Its place is that of log.
type follower struct {
	*Tail
	s     *stream
	log   LogReader
	yield func(session.Entry, error) bool

	deletions int
	room      [8]partial
}

func (f *follower) run(ctx context.Context) error {
	f.deletions = f.s.after(session.Position{}, nil).deletions
	timer := time.NewTimer(f.poll)
	defer timer.Stop()
	for look := true; ; {
		more := false
		if look {
			version, ok := f.s.looks()
			seq, full, err := f.log.Look(ctx)
			if err != nil {
				return err
			}
			if more = full; ok {
				f.s.saw(seq, version)
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
			look = !f.s.ours()
			timer.Reset(f.poll)
		case <-ctx.Done():
			return ctx.Err()
		case <-f.closed:
			return errClosed
		}
	}
}

// deliver yields all there is, and returns what tells that there is more.
func (f *follower) deliver(ctx context.Context) (changed <-chan struct{}, stopped bool, err error) {
	for {
		state := f.s.after(f.log.Position, f.room[:0])
		if state.deletions != f.deletions {
			if err := f.still(ctx); err != nil {
				return nil, false, err
			}
			f.deletions = state.deletions
		}
		for _, p := range state.parts {
			if err := f.wanted(ctx); err != nil {
				return nil, false, err
			}
			f.log.Part = p.at.Part
			if !f.yield(session.Entry{ID: p.at.String(), Event: p.event}, nil) {
				return nil, true, nil
			}
		}
		if len(state.parts) > 0 {
			continue
		}
		// What was published at this position is complete if the log has gone on.
		if f.log.Seq >= state.seq {
			return state.changed, false, nil
		}
		if err := f.wanted(ctx); err != nil {
			return nil, false, err
		}
		e, err := f.log.Next(ctx)
		if e.Event == nil || err != nil { // nil: deleted just now, which the next look finds
			return state.changed, false, err
		}
		if !f.yield(e, nil) {
			return nil, true, nil
		}
	}
}

// still returns an error that is ErrGone unless what was shown is still there.
func (f *follower) still(ctx context.Context) error {
	if f.log.Part > 0 {
		return ErrGone
	}
	_, _, err := f.log.Look(ctx)
	return err
}

func (f *follower) wanted(ctx context.Context) error {
	if f.isClosed() {
		return errClosed
	}
	return ctx.Err()
}
