package live

import (
	"context"
	"iter"
	"time"

	"github.com/agentarbor/arbor/session"
)

// Follow yields the entries of a session after a given one, and then new entries as they come, as
// [session.Tail] does. "" is the beginning. The last error is that of the context, or [ErrClosed]. If a
// turn was cut off because its process died, it resumes within seconds while a client follows it; see
// [WithTakeUp]. A fork without events of its own does not.
func (t *Turns) Follow(ctx context.Context, key session.Key, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
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
		}
	}
}

// begun reports whether a session has events of its own. A fork without any only shows the turn of its parent, and runs
// nothing until a caller resumes it.
func (t *Turns) begun(ctx context.Context, key session.Key) (bool, error) {
	info, ok, err := session.Find(ctx, t.store, key)
	return ok && info.Seq > info.ParentSeq, err
}

// watch looks from time to time whether somebody still works on a turn that is being followed:
// whoever does may go away without a word. It looks soon, because a process that was stopped or
// killed on this machine leaves a lease that can be taken at once, and less and less often. It
// goes on until the context ends; to stop the timer then leaves nothing behind.
func (t *Turns) watch(ctx context.Context, key session.Key) (timer *time.Timer) {
	wait := time.Second
	look := func() {
		if ctx.Err() != nil { // the timer was set while it was stopped
			return
		}
		if len(t.here(key)) == 0 {
			cut := false
			err := t.reader(key).Glance(ctx, key, func(f *session.Fold) error {
				cut = f.Unfinished() && t.resume(f.Turn.User)
				return nil
			})
			if err == nil && cut {
				cut, err = t.begun(ctx, key)
			}
			if err == nil && ctx.Err() == nil && cut {
				t.TakeOver(key)
			}
		}
		if ctx.Err() == nil {
			wait = min(2*wait, session.LeaseTTL)
			timer.Reset(wait)
		}
	}
	ready := make(chan struct{})
	timer = time.AfterFunc(wait, func() { <-ready; look() })
	close(ready)
	return timer
}
