package wire

import (
	"context"
	"iter"
	"reflect"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// around is a request handler that does something before and after each operation of
// another one.
type around struct {
	next a2asrv.RequestHandler
	// before sees a request, which is a pointer, may change it, and refuses it with an error.
	before func(req any) error
	// after makes of an error of an operation the one that is passed on; it is not called for
	// those of before. Nil passes on all.
	after func(ctx context.Context, operation string, err error) error
}

var _ a2asrv.RequestHandler = (*around)(nil)

func (a *around) failed(ctx context.Context, operation string, err error) error {
	if err == nil || a.after == nil {
		return err
	}
	return a.after(ctx, operation, err)
}

func once[P, R any](a *around, ctx context.Context, operation string, req *P, do func(a2asrv.RequestHandler, context.Context, *P) (R, error)) (result R, err error) {
	if err := a.before(req); err != nil {
		return result, err
	}
	result, err = do(a.next, ctx, req)
	return result, a.failed(ctx, operation, err)
}

// stream passes events on until the first error.
func stream[P any](a *around, ctx context.Context, operation string, req *P, do func(a2asrv.RequestHandler, context.Context, *P) iter.Seq2[sdk.Event, error]) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		if err := a.before(req); err != nil {
			yield(nil, err)
			return
		}
		for event, err := range do(a.next, ctx, req) {
			if !yield(event, a.failed(ctx, operation, err)) || err != nil {
				return
			}
		}
	}
}

func (a *around) SendMessage(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	return once(a, ctx, "SendMessage", req, a2asrv.RequestHandler.SendMessage)
}

func (a *around) SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return stream(a, ctx, "SendStreamingMessage", req, a2asrv.RequestHandler.SendStreamingMessage)
}

func (a *around) SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return stream(a, ctx, "SubscribeToTask", req, a2asrv.RequestHandler.SubscribeToTask)
}

func (a *around) GetTask(ctx context.Context, req *sdk.GetTaskRequest) (*sdk.Task, error) {
	return once(a, ctx, "GetTask", req, a2asrv.RequestHandler.GetTask)
}

func (a *around) ListTasks(ctx context.Context, req *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	return once(a, ctx, "ListTasks", req, a2asrv.RequestHandler.ListTasks)
}

func (a *around) CancelTask(ctx context.Context, req *sdk.CancelTaskRequest) (*sdk.Task, error) {
	return once(a, ctx, "CancelTask", req, a2asrv.RequestHandler.CancelTask)
}

func (a *around) CreateTaskPushConfig(ctx context.Context, req *sdk.PushConfig) (*sdk.PushConfig, error) {
	return once(a, ctx, "CreateTaskPushNotificationConfig", req, a2asrv.RequestHandler.CreateTaskPushConfig)
}

func (a *around) GetTaskPushConfig(ctx context.Context, req *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	return once(a, ctx, "GetTaskPushNotificationConfig", req, a2asrv.RequestHandler.GetTaskPushConfig)
}

func (a *around) ListTaskPushConfigs(ctx context.Context, req *sdk.ListTaskPushConfigRequest) (*sdk.ListTaskPushConfigResponse, error) {
	return once(a, ctx, "ListTaskPushNotificationConfigs", req, a2asrv.RequestHandler.ListTaskPushConfigs)
}

func (a *around) DeleteTaskPushConfig(ctx context.Context, req *sdk.DeleteTaskPushConfigRequest) error {
	_, err := once(a, ctx, "DeleteTaskPushNotificationConfig", req, deletePushConfig)
	return err
}

func (a *around) GetExtendedAgentCard(ctx context.Context, req *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	return once(a, ctx, "GetExtendedAgentCard", req, a2asrv.RequestHandler.GetExtendedAgentCard)
}

// deletePushConfig answers with what google.protobuf.Empty is in JSON: {}.
func deletePushConfig(h a2asrv.RequestHandler, ctx context.Context, req *sdk.DeleteTaskPushConfigRequest) (struct{}, error) {
	return struct{}{}, h.DeleteTaskPushConfig(ctx, req)
}

// tenantOf returns where a request names its tenant: each type of request has such a field.
func tenantOf(req any) *string {
	return reflect.ValueOf(req).Elem().FieldByName("Tenant").Addr().Interface().(*string)
}
