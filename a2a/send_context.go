package a2a

import (
	"context"
	"time"
)

// sendContext returns a context for sending a message that outlives a canceled turn by up to cancelTimeout. If the turn
// is canceled after the message was sent and before the first event, the peer works on a task whose id is unknown.
// Waiting for the first event makes it possible to cancel the task. The context does not outlive a time limit, because
// a peer that was silent for so long is unlikely to answer now. Nor does it outlive a suspended turn, because the
// process that resumes the turn sends the same message.
func (x *exchange) sendContext(ctx context.Context) (sending context.Context, stop context.CancelFunc) {
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if x.outer.Err() == nil || x.suspended() || x.delivery.gotEvent.Load() || x.delivery.unsent() {
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
