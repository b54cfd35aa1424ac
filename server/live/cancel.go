package live

import (
	"context"
	"errors"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// Stop interrupts the last turn of a session, and waits until no process runs it. A user can resume the turn; no
// process resumes it by itself. If another process runs the turn, Stop stores a request, which that process sees with
// its next write, and within 5 seconds. If the process has died, the request also keeps others from adopting the turn.
// Stop does nothing if the turn waits or has ended. If the context ends first, Stop returns its cause. A model of the
// other process that ignores its context delays Stop until the lease has ended, at most 20 seconds.
func (t *Turns) Stop(ctx context.Context, key session.Key) error {
	return t.interrupt(ctx, key, t.runningTurns(key))
}

// Abandon is [Turns.Stop] for a turn whose client has disconnected. It does nothing if another client
// watches the turn, or if the session has a newer turn.
func (t *Turns) Abandon(ctx context.Context, key session.Key, turn string) error {
	running := t.runningTurns(key)
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

// interrupt ends the session's last turn so that it can be resumed. running are the turns of this process.
func (t *Turns) interrupt(ctx context.Context, key session.Key, running []*Turn) error {
	var seq int64
	err := t.reader(key).ReadFold(ctx, key, func(f *session.Fold) error {
		seq = f.Seq
		return nil
	})
	if err == nil && len(running) > 0 {
		err = end(ctx, running, session.ErrStopped)
		t.notifyWatchers(key)
	}
	if err != nil {
		return err
	}
	return t.requestStop(ctx, key, seq) // a backend such as an engine may run the turn elsewhere
}

// requestStop stores a request to stop the turn that the log has at a position, unless the turn has ended, waits or is
// stopped by now, and waits until no process runs it. If none did, requestStop itself stores that the turn was stopped.
func (t *Turns) requestStop(ctx context.Context, key session.Key, seq int64) error {
	for requested := false; ; {
		var runs, stopped bool
		err := t.reader(key).ReadFold(ctx, key, func(f *session.Fold) error {
			runs, stopped = f.StopsAt(seq), f.Stopped()
			return nil
		})
		if err != nil || !runs && !stopped {
			return err
		}
		if runs && !requested {
			if begun, err := t.begun(ctx, key); err != nil || !begun {
				return err
			}
			if _, err := t.store.Write(ctx, key, session.Write{Stop: seq}); err != nil {
				return err
			}
			requested = true
		}
		info, _, err := session.Find(ctx, t.store, key)
		if err != nil {
			return err
		}
		if !info.Leased && stopped {
			return nil
		}
		if !info.Leased {
			if err = t.reader(key).StoreStop(ctx, key); errors.Is(err, agent.ErrSessionBusy) {
				err = nil // a process has begun a step, and finds the request
			}
			return err
		}
		if err := t.WaitFree(ctx, key, time.Now().Add(time.Second)); err != nil {
			return err
		}
	}
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

// Cancel ends the session's last turn for good, with [runner.Runner.Cancel]. The turn may run in any process, may have
// been interrupted, or may wait. If another process runs it, Cancel first stops it there, as [Turns.Stop] does. Cancel
// returns the events that the cancellation stored, without the turn's own events.
func (t *Turns) Cancel(ctx context.Context, key session.Key) ([]*event.Event, error) {
	return t.CancelIf(ctx, key, func(ctx context.Context) (seq int64, rests bool, err error) {
		err = t.reader(key).ReadFold(ctx, key, func(f *session.Fold) error {
			seq, rests = f.Seq, !f.Unfinished()
			return nil
		})
		return seq, rests, err
	})
}

// CancelIf is [Turns.Cancel] for a particular turn. It calls check when no turn of this process changes the log any
// more. The function reads the log and returns the position of its end, and whether the turn waits or has ended
// there. If it has, CancelIf waits up to 10 s for the process that holds the session to release it. If check
// returns an error, CancelIf returns that error and cancels nothing. If the log has grown meanwhile, it calls check
// again, up to ten times in all, and then returns agent.ErrConflict. If the context ends after CancelIf has begun, it goes
// on for up to 10 s, or for one after Close, because it may have interrupted the turn. If the cancellation fails, a turn that
// this process ran stays stopped.
func (t *Turns) CancelIf(ctx context.Context, key session.Key, check func(context.Context) (seq int64, rests bool, err error)) (events []*event.Event, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, done := t.outliving(ctx)
	defer done()
	backend, ran, release, err := t.hold(ctx, key)
	if err != nil {
		return nil, err
	}
	defer release()
	cancels := false
	defer func() {
		if err != nil && cancels && ran {
			t.leaveStopped(ctx, key)
		}
	}()
	pause := time.Duration(0)
	for deadline, tries := time.Now().Add(releaseTime), 1; ; tries++ {
		seq, rests, err := check(ctx)
		if err != nil {
			return nil, err
		}
		cancels = true
		events, err := backend.Cancel(ctx, key, runner.At(seq))
		switch {
		case errors.Is(err, agent.ErrConflict) && tries < 10:
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		case errors.Is(err, agent.ErrSessionBusy) && rests && time.Now().Before(deadline):
			tries--
			pause += 10 * time.Millisecond
			if err := t.WaitFree(ctx, key, time.Now().Add(pause)); err != nil {
				return nil, err
			}
		case errors.Is(err, agent.ErrSessionBusy) && !rests && tries < 10:
			if err := t.requestStop(ctx, key, seq); err != nil {
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

// outliving returns a context with the values of ctx that ends cancelTime after ctx, or a second after Close.
func (r *registry) outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(cancelTime)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-longer.Done():
		case <-r.background.Done():
			timer.Reset(time.Second)
			select {
			case <-timer.C:
			case <-longer.Done():
			}
		}
		cancel(context.Cause(ctx))
	})
	return longer, func() { undo(); cancel(nil) }
}

// cancelTime is how long a cancellation goes on without its client. Another process stops its turn within 5 s.
const cancelTime = 10 * time.Second

// leaveStopped requests that no process adopts the turn that this process has interrupted, and could not cancel.
func (t *Turns) leaveStopped(ctx context.Context, key session.Key) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	var write session.Write
	err := t.reader(key).ReadFold(ctx, key, func(f *session.Fold) error {
		if f.Unfinished() && !f.Stopped() {
			write.Stop = f.Seq
		}
		return nil
	})
	if err == nil && write.Stop > 0 {
		_, err = t.store.Write(ctx, key, write)
	}
	if err != nil {
		t.logger.Warn("a turn that could not be canceled may be adopted", "session", key.String(), "error", err)
	}
}

// hold ends the turn that this process runs in a session, and prevents other calls from resuming it until release is
// called. The backend is the one that cancels the turn; ran reports whether there was a turn.
func (t *Turns) hold(ctx context.Context, key session.Key) (backend Backend, ran bool, release func(), err error) {
	held := &Turn{key: key, cancel: func(error) {}, done: make(chan struct{})}
	running, err := t.join(held)
	if err != nil {
		return nil, false, nil, err
	}
	release = func() {
		t.exit(held)
		close(held.done)
	}
	if err := end(ctx, running, ErrCanceled); err != nil {
		t.leaveStopped(ctx, key)
		release()
		return nil, false, nil, err
	}
	return t.canceler(key), len(running) > 0, release, nil
}
