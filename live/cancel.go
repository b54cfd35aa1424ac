package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Stop interrupts the turn of a session that this process runs, and waits until it has ended. The turn can be
// resumed. Followers in this process do not resume it; a follower in another process does, and [WithAdoption] does
// not. If the session has no running turn, Stop does nothing. If another process runs the turn, the error is
// agent.ErrSessionBusy. If the context ends first, Stop returns its cause.
func (t *Turns) Stop(ctx context.Context, key session.Key) error {
	return t.interrupt(ctx, key, t.here(key))
}

// Abandon is [Turns.Stop] for a turn whose client has disconnected. It does nothing if another client
// watches the turn, or if the session has a newer turn.
func (t *Turns) Abandon(ctx context.Context, key session.Key, turn string) error {
	running := t.here(key)
	if len(running) == 0 {
		return nil
	}
	switch r, err := t.Report(ctx, key, ""); {
	case err != nil:
		return err
	case r.ID != turn:
		return nil
	}
	if t.watched(key) {
		return nil
	}
	return t.interrupt(ctx, key, running)
}

// interrupt ends turns so that they can be resumed.
func (t *Turns) interrupt(ctx context.Context, key session.Key, running []*Turn) error {
	if len(running) == 0 {
		info, _, err := session.Find(ctx, t.store, key)
		if err == nil && info.Leased && len(t.here(key)) == 0 {
			err = fmt.Errorf("session %s: another process runs its turn: %w", key, agent.ErrSessionBusy)
		}
		return err
	}
	t.markStopped(key)
	err := end(ctx, running, ErrStopped)
	t.notifyWatchers(key)
	return err
}

// end cancels turns and waits until they have ended.
func end(ctx context.Context, turns []*Turn, cause error) error {
	for _, x := range turns {
		x.cancel(cause)
		select {
		case <-x.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Cancel ends the session's last turn for good, with [runner.Runner.Cancel]. The turn may run in this process, may
// have been interrupted, or may wait. Cancel returns the events that the cancellation stored, without the turn's own
// events. If another process runs the turn, the error is agent.ErrSessionBusy.
func (t *Turns) Cancel(ctx context.Context, key session.Key) ([]*event.Event, error) {
	return t.CancelIf(ctx, key, func(ctx context.Context) (seq int64, rests bool, err error) {
		err = t.reader(key).Glance(ctx, key, func(f *session.Fold) error {
			seq, rests = f.Seq, !f.Unfinished()
			return nil
		})
		return seq, rests, err
	})
}

// CancelIf is [Turns.Cancel] for a particular turn. It calls check when no turn of this process changes the log any
// more. The function reads the log and returns the position of its end, and whether the turn waits or has ended
// there. If it has, CancelIf waits up to 250 ms for the process that holds the session to release it. If check
// returns an error, CancelIf returns that error and cancels nothing. If the log has grown meanwhile, it calls check
// again, up to ten times in all, and then returns agent.ErrConflict.
func (t *Turns) CancelIf(ctx context.Context, key session.Key, check func(context.Context) (seq int64, rests bool, err error)) ([]*event.Event, error) {
	backend, release, err := t.hold(ctx, key)
	if err != nil {
		return nil, err
	}
	defer release()
	for deadline, tries := time.Now().Add(releaseTime), 1; ; tries++ {
		seq, rests, err := check(ctx)
		if err != nil {
			return nil, err
		}
		events, err := backend.Cancel(ctx, key, runner.At(seq))
		switch {
		case errors.Is(err, agent.ErrConflict) && tries < 10:
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		case errors.Is(err, agent.ErrSessionBusy) && rests && time.Now().Before(deadline):
			if err := t.WaitFree(ctx, key, time.Now().Add(10*time.Millisecond)); err != nil {
				return nil, err
			}
		default:
			if t.observer != nil && len(events) > 0 {
				t.observer.Turn(ctx, access.APIOf(ctx), string(Canceled))
			}
			return events, err
		}
	}
}

// hold ends the turn that this process runs in a session, and prevents other calls from resuming it until release is
// called. The backend is the one that cancels the turn.
func (t *Turns) hold(ctx context.Context, key session.Key) (backend Backend, release func(), err error) {
	held := &Turn{key: key, cancel: func(error) {}, done: make(chan struct{})}
	running, err := t.join(held)
	if err != nil {
		return nil, nil, err
	}
	release = func() {
		t.exit(held)
		close(held.done)
	}
	if err := end(ctx, running, ErrCanceled); err != nil {
		release()
		return nil, nil, err
	}
	return t.canceler(key), release, nil
}
