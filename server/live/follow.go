package live

import (
	"context"
	"iter"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Follow yields the entries of a session after a given one, and then new entries when they come, as [session.Tail]
// does. With "" it starts at the beginning. It ends with an error: that of the context, or [ErrClosed]. If a turn was
// interrupted because its process died, a process adopts it within seconds while a client follows it; see
// [WithAutoResume]. No process adopts a turn that was stopped. A turn in a fork without events of its own stays as it is.
func (t *Turns) Follow(ctx context.Context, key session.Key, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		t.follow(ctx, cancel, key, after)(yield)
	}
}

// follow is Follow with the function that cancels the context. It calls the function at the end.
func (t *Turns) follow(ctx context.Context, cancel context.CancelCauseFunc, key session.Key, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		closing := context.AfterFunc(t.background, func() { cancel(ErrClosed) })
		watching := t.watch(ctx, key)
		defer func() {
			cancel(nil)
			closing()
			watching.Stop()
		}()
		for entry, err := range t.store.Follow(ctx, key, after) {
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(entry, err) || err != nil {
				return
			}
			t.notifyStopped(ctx, key, entry.Event)
		}
	}
}

// notifyStopped cancels the watchers of a session after an event if it is the last one, and says that no process resumes
// the turn: another process may have stored it. It does nothing while this process runs or resumes the turn.
func (l *logs) notifyStopped(ctx context.Context, key session.Key, e *event.Event) {
	if e.Partial || !e.IsNotice(event.NoticeStopped, event.NoticeLeft) || len(l.runningTurns(key)) > 0 {
		return
	}
	_ = l.reader(key).ReadFold(ctx, key, func(f *session.Fold) error { // after an error, the next check of the follower tries again
		if f.Seq == e.Seq {
			l.notifyWatchers(key)
		}
		return nil
	})
}

// begun reports whether a session has events of its own. A fork without any only shows the turn of its parent, and
// runs nothing until a caller resumes it.
func (l *logs) begun(ctx context.Context, key session.Key) (bool, error) {
	info, ok, err := session.Find(ctx, l.store, key)
	return ok && info.Seq > info.ParentSeq, err
}

// watch checks from time to time whether a process still runs the turn that a client follows, because a process may
// die without a notification. The first check comes after a second, because the lease of a process that died on this
// machine can be acquired at once. The pauses grow. watch ends with the context; stopping the timer then releases
// everything.
func (t *Turns) watch(ctx context.Context, key session.Key) (timer *time.Timer) {
	wait := time.Second
	check := func() {
		if ctx.Err() != nil { // the timer was reset after it was stopped
			return
		}
		if len(t.runningTurns(key)) == 0 {
			cut, stopped, ours, err := t.interrupted(ctx, key)
			if cut = err == nil && cut && ours && !stopped; cut {
				cut, err = t.begun(ctx, key)
			}
			switch {
			case err != nil || ctx.Err() != nil:
			case cut:
				t.Adopt(key)
			case stopped: // the caller may follow from after the notice
				t.notifyWatchers(key)
			}
		}
		if ctx.Err() == nil {
			wait = min(2*wait, session.LeaseTTL)
			timer.Reset(wait)
		}
	}
	ready := make(chan struct{})
	timer = time.AfterFunc(wait, func() { <-ready; check() })
	close(ready)
	return timer
}
