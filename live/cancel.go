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

// Stop cancels the turn of a session that this process runs, and waits until it has ended. The turn can be
// resumed. Followers of this process do not resume it by themselves; a follower of another process does,
// and [WithTakeOver] does not. Without a turn Stop does nothing. It returns agent.ErrSessionBusy if another
// process runs the turn.
func (t *Turns) Stop(ctx context.Context, key session.Key) error {
	return t.cutOff(ctx, key, t.here(key))
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
	return t.cutOff(ctx, key, running)
}

// cutOff ends turns so that they can be resumed.
func (t *Turns) cutOff(ctx context.Context, key session.Key, running []*Turn) error {
	if len(running) == 0 {
		info, _, err := session.Find(ctx, t.store, key)
		if err == nil && info.Leased && len(t.here(key)) == 0 {
			err = fmt.Errorf("session %s: another process runs its turn: %w", key, agent.ErrSessionBusy)
		}
		return err
	}
	t.markStopped(key)
	err := end(ctx, running, ErrStopped)
	t.tellWatchers(key)
	return err
}

// end cancels turns and waits for them.
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

// Cancel ends the session's last turn for good, with [runner.Runner.Cancel]: a turn that this process runs,
// that was cut off, or that waits. It returns the events stored by the cancellation, without those of the
// turn itself. It returns agent.ErrSessionBusy if another process runs the turn.
func (t *Turns) Cancel(ctx context.Context, key session.Key) ([]*event.Event, error) {
	return t.CancelIf(ctx, key, func(ctx context.Context) (seq int64, rests bool, err error) {
		err = t.reader(key).Glance(ctx, key, func(f *session.Fold) error {
			seq, rests = f.Seq, !f.Unfinished()
			return nil
		})
		return seq, rests, err
	})
}

// CancelIf is [Turns.Cancel] for one particular turn. It calls check when no turn of this process changes
// the log any more. The function reads the log and returns where it ends, and whether the turn waits or is
// over there: then CancelIf waits a moment for the process that holds the session to release it. If check
// returns an error, CancelIf returns that error and cancels nothing. If the log has grown meanwhile, it
// calls check again, up to ten times, and then returns agent.ErrConflict.
func (t *Turns) CancelIf(ctx context.Context, key session.Key, check func(context.Context) (seq int64, rests bool, err error)) ([]*event.Event, error) {
	backend, release, err := t.hold(ctx, key)
	if err != nil {
		return nil, err
	}
	defer release()
	for deadline, tries := time.Now().Add(letGo), 1; ; tries++ {
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
				t.observer.Turn(ctx, access.DoorOf(ctx), string(Canceled))
			}
			return events, err
		}
	}
}

// hold ends the turn that this process runs in a session, and keeps others from taking it up
// until release is called. A turn that waits has said all that it had to say, and holds the
// session for a moment longer. The backend is the one to cancel with.
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
