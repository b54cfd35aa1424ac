package wire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// legacyHandler is what the binding of version 0.3 calls: the same handler, for the tenant of the
// path, because 0.3 has no tenants; and without the texts of internal errors, which that
// binding would tell the client.
type legacyHandler struct {
	around
	f *frontHandler
}

func newLegacyHandler(f *frontHandler, tenant string) *legacyHandler {
	l := &legacyHandler{f: f}
	l.around = around{next: f.checks, after: l.told, before: func(req any) error {
		*tenantOf(req) = tenant
		return nil
	}}
	return l
}

// told is what a client may know of an error.
func (l *legacyHandler) told(ctx context.Context, _ string, err error) error {
	t := toWire(err, "", time.Now())
	if t.inner && ctx.Err() == nil {
		l.f.Logger.ErrorContext(ctx, "a2a: a request of version 0.3 failed", "error", err.Error())
	}
	kind := t.err
	if kind == nil {
		kind = sdk.ErrServerError
	}
	out := sdk.NewError(kind, t.message)
	out.TypedDetails = t.details
	return out
}

// events are those of a stream. A panic behind them is its last error, because by then the
// stream may have begun, and nobody but its binding can write to it.
func (l *legacyHandler) events(ctx context.Context, events iter.Seq2[sdk.Event, error]) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		outside := false // the binding is at work
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if outside {
				panic(v)
			}
			var fault *panicError
			if errors.As(panicked(v), &fault) {
				l.f.Logger.ErrorContext(ctx, "a2a: a request of version 0.3 made the server panic", "panic", fmt.Sprint(fault.value), "stack", string(fault.stack))
			}
			yield(nil, sdk.NewError(sdk.ErrInternalError, "internal error"))
		}()
		for event, err := range events {
			outside = true
			more := yield(event, err)
			outside = false
			if !more {
				return
			}
		}
	}
}

func (l *legacyHandler) SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return l.events(ctx, l.around.SendStreamingMessage(ctx, req))
}

func (l *legacyHandler) SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return l.events(ctx, l.around.SubscribeToTask(ctx, req))
}
