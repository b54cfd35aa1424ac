package a2aserver

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
	f      *frontHandler
	tenant string
}

// legacyError is what a client may know of an error.
func (l *legacyHandler) legacyError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	t := toWire(err, "", time.Now())
	if t.inner && ctx.Err() == nil {
		l.f.logger.ErrorContext(ctx, "a2a: a request of version 0.3 failed", "error", err.Error())
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
				l.f.logger.ErrorContext(ctx, "a2a: a request of version 0.3 made the server panic", "panic", fmt.Sprint(fault.value), "stack", string(fault.stack))
			}
			yield(nil, sdk.NewError(sdk.ErrInternalError, "internal error"))
		}()
		for event, err := range events {
			outside = true
			more := yield(event, l.legacyError(ctx, err))
			outside = false
			if !more {
				return
			}
		}
	}
}

func (l *legacyHandler) SendMessage(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	req.Tenant = l.tenant
	result, err := l.f.checks.SendMessage(ctx, req)
	return result, l.legacyError(ctx, err)
}

func (l *legacyHandler) SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	req.Tenant = l.tenant
	return l.events(ctx, l.f.checks.SendStreamingMessage(ctx, req))
}

func (l *legacyHandler) SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	req.Tenant = l.tenant
	return l.events(ctx, l.f.checks.SubscribeToTask(ctx, req))
}

func (l *legacyHandler) GetTask(ctx context.Context, req *sdk.GetTaskRequest) (*sdk.Task, error) {
	req.Tenant = l.tenant
	task, err := l.f.checks.GetTask(ctx, req)
	return task, l.legacyError(ctx, err)
}

func (l *legacyHandler) ListTasks(ctx context.Context, req *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	req.Tenant = l.tenant
	list, err := l.f.checks.ListTasks(ctx, req)
	return list, l.legacyError(ctx, err)
}

func (l *legacyHandler) CancelTask(ctx context.Context, req *sdk.CancelTaskRequest) (*sdk.Task, error) {
	req.Tenant = l.tenant
	task, err := l.f.checks.CancelTask(ctx, req)
	return task, l.legacyError(ctx, err)
}

func (l *legacyHandler) CreateTaskPushConfig(ctx context.Context, req *sdk.PushConfig) (*sdk.PushConfig, error) {
	req.Tenant = l.tenant
	config, err := l.f.checks.CreateTaskPushConfig(ctx, req)
	return config, l.legacyError(ctx, err)
}

func (l *legacyHandler) GetTaskPushConfig(ctx context.Context, req *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	req.Tenant = l.tenant
	config, err := l.f.checks.GetTaskPushConfig(ctx, req)
	return config, l.legacyError(ctx, err)
}

func (l *legacyHandler) ListTaskPushConfigs(ctx context.Context, req *sdk.ListTaskPushConfigRequest) (*sdk.ListTaskPushConfigResponse, error) {
	req.Tenant = l.tenant
	list, err := l.f.checks.ListTaskPushConfigs(ctx, req)
	return list, l.legacyError(ctx, err)
}

func (l *legacyHandler) DeleteTaskPushConfig(ctx context.Context, req *sdk.DeleteTaskPushConfigRequest) error {
	req.Tenant = l.tenant
	return l.legacyError(ctx, l.f.checks.DeleteTaskPushConfig(ctx, req))
}

func (l *legacyHandler) GetExtendedAgentCard(ctx context.Context, req *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	req.Tenant = l.tenant
	card, err := l.f.checks.GetExtendedAgentCard(ctx, req)
	return card, l.legacyError(ctx, err)
}
