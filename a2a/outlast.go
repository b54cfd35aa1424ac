package a2a

import (
	"context"
	"time"
)

// outlast returns a context for sending a message, which outlasts the turn a little: if
// the turn is canceled after the message was sent and before anything came back, the peer
// works on a task that nobody knows. So its first event is waited for, as long as a
// canceling call may take, and then the task can be canceled. Time limits are not
// outlasted, because a peer that is silent for that long will not speak now, nor is a
// turn that is only suspended, because whoever resumes it sends the same message.
func (x *exchange) outlast(ctx context.Context) (sending context.Context, stop context.CancelFunc) {
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if x.outer.Err() == nil || x.suspended() || x.delivery.heard.Load() || x.delivery.unsent() {
			cancel(cause)
			return
		}
		timer := time.AfterFunc(cancelTimeout, func() { cancel(cause) })
		context.AfterFunc(sending, func() { timer.Stop() })
	})
	return sending, func() {
		unwatch()
		cancel(nil)
	}
}
