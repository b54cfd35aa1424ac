package a2av0

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	compat "github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// decode decodes and converts parameters. An error is the client's, and its text names the place.
func decode[P, Q any](params json.RawMessage, to func(*P) (Q, error)) (q Q, err error) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return q, sdk.NewError(sdk.ErrInvalidParams, fmt.Sprintf("params: %v", err))
	}
	return to(&p)
}

type (
	method = func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) (any, error)
	stream = func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) iter.Seq2[sdk.Event, error]
)

// operation returns a method that converts the parameters, calls an operation and converts its result.
func operation[P, Q, R, A any](to func(*P) (Q, error), call func(a2asrv.RequestHandler, context.Context, Q) (R, error), from func(R) (A, error)) method {
	return func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) (any, error) {
		q, err := decode(params, to)
		if err != nil {
			return nil, err
		}
		r, err := call(h, ctx, q)
		if err != nil {
			return nil, err
		}
		return from(r)
	}
}

// methods are the methods of 0.3 with a single answer (section 7 of its specification).
var methods = map[string]method{
	"message/send":                        operation(toSendRequest, a2asrv.RequestHandler.SendMessage, func(r sdk.SendMessageResult) (any, error) { return fromEvent(r) }),
	"tasks/get":                           operation(withoutError(compat.ToV1GetTaskRequest), a2asrv.RequestHandler.GetTask, fromTask),
	"tasks/cancel":                        operation(withoutError(compat.ToV1CancelTaskRequest), a2asrv.RequestHandler.CancelTask, fromTask),
	"tasks/pushNotificationConfig/set":    operation(withoutError(compat.ToV1PushConfig), a2asrv.RequestHandler.CreateTaskPushConfig, withoutError(compat.FromV1PushConfig)),
	"tasks/pushNotificationConfig/get":    operation(withoutError(compat.ToV1GetTaskPushConfigRequest), getPushConfig, withoutError(compat.FromV1PushConfig)),
	"tasks/pushNotificationConfig/list":   operation(withoutError(compat.ToV1ListTaskPushConfigRequest), listPushConfigs, withoutError(fromPushConfigs)),
	"tasks/pushNotificationConfig/delete": operation(withoutError(compat.ToV1DeleteTaskPushConfigRequest), deletePushConfig, withoutError(func(nothing json.RawMessage) any { return nothing })),
	"agent/getAuthenticatedExtendedCard":  extendedCard,
}

// streams are the methods with a stream of answers.
var streams = map[string]stream{
	"message/stream":    streamOf(toSendRequest, a2asrv.RequestHandler.SendStreamingMessage),
	"tasks/resubscribe": streamOf(withoutError(compat.ToV1SubscribeToTaskRequest), a2asrv.RequestHandler.SubscribeToTask),
}

func streamOf[P, Q any](to func(*P) (Q, error), call func(a2asrv.RequestHandler, context.Context, Q) iter.Seq2[sdk.Event, error]) stream {
	return func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) iter.Seq2[sdk.Event, error] {
		q, err := decode(params, to)
		if err == nil {
			return call(h, ctx, q)
		}
		return func(yield func(sdk.Event, error) bool) { yield(nil, err) }
	}
}

// getPushConfig returns a push configuration. If the client names none, which 0.3 allows, it returns the first one.
func getPushConfig(h a2asrv.RequestHandler, ctx context.Context, r *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	if r.ID != "" {
		return h.GetTaskPushConfig(ctx, r)
	}
	list, err := h.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{Tenant: r.Tenant, TaskID: r.TaskID})
	if err != nil {
		return nil, err
	}
	if len(list.Configs) == 0 {
		return nil, sdk.NewError(sdk.ErrTaskNotFound, "the task has no push notification config")
	}
	return list.Configs[0], nil
}

// listPushConfigs collects all pages of the list, because 0.3 has no pages.
func listPushConfigs(h a2asrv.RequestHandler, ctx context.Context, r *sdk.ListTaskPushConfigRequest) ([]*sdk.PushConfig, error) {
	var all []*sdk.PushConfig
	for {
		list, err := h.ListTaskPushConfigs(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Configs...)
		if list.NextPageToken == "" || list.NextPageToken == r.PageToken {
			return all, nil
		}
		r.PageToken = list.NextPageToken
	}
}

func deletePushConfig(h a2asrv.RequestHandler, ctx context.Context, r *sdk.DeleteTaskPushConfigRequest) (json.RawMessage, error) {
	return json.RawMessage("null"), h.DeleteTaskPushConfig(ctx, r)
}

// extendedCard returns the extended card. It has no parameters.
func extendedCard(h a2asrv.RequestHandler, ctx context.Context, _ json.RawMessage) (any, error) {
	card, err := h.GetExtendedAgentCard(ctx, &sdk.GetExtendedAgentCardRequest{})
	if errors.Is(err, sdk.ErrUnsupportedOperation) {
		// The agent has no extended card. Version 0.3 has an error for that, which 1.0 reserves for an agent that
		// declares a card but has none.
		err = sdk.NewError(sdk.ErrExtendedCardNotConfigured, err.Error())
	}
	if err != nil {
		return nil, err
	}
	doc, err := encodeCard(card)
	return json.RawMessage(doc), err
}
