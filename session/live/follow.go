package session

import (
	"context"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
)

// liveFollower is one call of Follow. Its place is that of log, and part.
type liveFollower struct {
	*Live
	s     *liveSession
	log   LogReader
	part  int64
	yield func(Entry, error) bool

	deletions int
	room      [32]livePart
}

func (f *liveFollower) run(ctx context.Context) error {
	f.deletions = f.s.after(Position{}, nil).deletions
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
			look = true
			timer.Reset(f.poll)
		case <-ctx.Done():
			return ctx.Err()
		case <-f.closed:
			return errLiveClosed
		}
	}
}

// deliver yields all there is, and returns what tells that there is more.
func (f *liveFollower) deliver(ctx context.Context) (changed <-chan struct{}, stopped bool, err error) {
	for {
		state := f.s.after(Position{f.log.Seq, f.part}, f.room[:0])
		if state.deletions != f.deletions {
			if f.log.Seq > 0 || f.part > 0 {
				return nil, false, errDeleted
			}
			f.deletions = state.deletions
			f.log.Forget()
		}
		for _, p := range state.parts {
			if err := f.wanted(ctx); err != nil {
				return nil, false, err
			}
			f.part = p.at.Part
			e := *p.event
			if !f.yield(Entry{ID: p.at.String(), Event: &e}, nil) {
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
		if e == nil || err != nil { // nil: deleted just now, which the next look finds
			return state.changed, false, err
		}
		f.part = 0
		if !f.yield(Entry{ID: Position{e.Seq, 0}.String(), Event: e}, nil) {
			return nil, true, nil
		}
	}
}

func (f *liveFollower) wanted(ctx context.Context) error {
	if f.isClosed() {
		return errLiveClosed
	}
	return ctx.Err()
}

var errDeleted = fmt.Errorf("it was deleted while it was followed: %w", agent.ErrConflict)
