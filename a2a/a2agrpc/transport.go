package a2agrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/agentarbor/arbor/a2a"
)

// transport calls one gRPC server.
type transport struct {
	conn   *grpc.ClientConn
	client pb.A2AServiceClient
	env    a2a.Environment
	target *url.URL
	limit  int

	undialed atomic.Pointer[error] // of the last dial that failed: gRPC keeps its text only
}

// hopHeaders describe a connection of HTTP/1 and must not travel as metadata.
var hopHeaders = map[string]bool{"connection": true, "host": true, "content-length": true, "transfer-encoding": true, "upgrade": true,
	"keep-alive": true, "proxy-connection": true}

// outgoing returns the context of a call: what the caller's context says of other calls is
// left out, so that nobody else's credentials are sent here.
func (t *transport) outgoing(ctx context.Context, params a2aclient.ServiceParams) (context.Context, http.Header, error) {
	md := metadata.MD{}
	for name, values := range params {
		// Lists are one entry with commas (A2A 1.0, section 10.2).
		md.Set(strings.ToLower(name), strings.Join(values, ","))
	}
	var sent http.Header
	if t.env.Credentials != nil {
		var err error
		if sent, err = t.env.Credentials(ctx, t.target); err != nil {
			return nil, nil, err
		}
		for name, values := range sent {
			if name = strings.ToLower(name); !hopHeaders[name] {
				md.Append(name, values...)
			}
		}
	}
	return metadata.NewOutgoingContext(ctx, md), sent, nil
}

func (t *transport) heard(ctx context.Context) {
	if t.env.Heard != nil {
		t.env.Heard(ctx)
	}
}

// failed makes of a call's error what remote agents understand: the protocol's errors, the
// context's, an *a2a.Error for an answer that is too large, and a *url.Error for a server
// that cannot be reached or a connection that broke.
func (t *transport) failed(ctx context.Context, err error, request proto.Message, sent http.Header) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch code := st.Code(); {
	case code == codes.Unauthenticated && t.env.Refused != nil && sent != nil:
		t.env.Refused(sent)
	case code == codes.DeadlineExceeded:
		return fmt.Errorf("the server ended the call: %w", context.DeadlineExceeded)
	case code == codes.ResourceExhausted && strings.Contains(st.Message(), "larger than max") && proto.Size(request) <= t.limit:
		// A server that refuses a request for its size says the same, in the same words.
		return t.tooLarge()
	case code == codes.Unavailable, code == codes.Canceled, strings.HasPrefix(st.Message(), "stream terminated by RST_STREAM"):
		cause := errors.New(st.Message())
		if dial := t.undialed.Load(); dial != nil && strings.Contains(st.Message(), (*dial).Error()) {
			cause = *dial
		}
		return &url.Error{Op: "call", URL: t.target.String(), Err: cause}
	}
	return fromError(st)
}

func (t *transport) tooLarge() error {
	return &a2a.Error{Card: t.target.String(), Code: a2a.CodeTooLarge, Message: fmt.Sprintf("the response is longer than the limit of %d bytes", t.limit)}
}

// unary makes a call with one answer.
func unary[Q proto.Message, R any](ctx context.Context, t *transport, params a2aclient.ServiceParams, req Q,
	call func(context.Context, Q, ...grpc.CallOption) (R, error)) (R, error) {
	var none R
	out, sent, err := t.outgoing(ctx, params)
	if err != nil {
		return none, err
	}
	resp, err := call(out, req)
	if err != nil {
		return none, t.failed(ctx, err, req, sent)
	}
	t.heard(ctx)
	return resp, nil
}

// stream makes a call with many answers. The call ends when the consumer stops.
func stream[Q proto.Message](ctx context.Context, t *transport, params a2aclient.ServiceParams, req Q,
	call func(context.Context, Q, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.StreamResponse], error)) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		out, sent, err := t.outgoing(ctx, params)
		if err != nil {
			yield(nil, err)
			return
		}
		answers, err := call(out, req)
		total := 0
		for err == nil {
			var answer *pb.StreamResponse
			if answer, err = answers.Recv(); err != nil {
				break
			}
			t.heard(ctx)
			if total += proto.Size(answer); total > t.limit {
				yield(nil, t.tooLarge())
				return
			}
			if e := fromEvent(answer); e != nil && !yield(e, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, t.failed(ctx, err, req, sent))
		}
	}
}

// refused yields an error instead of events.
func refused(err error) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) { yield(nil, err) }
}

func (t *transport) SendMessage(ctx context.Context, params a2aclient.ServiceParams, r *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	req, err := toSend(r)
	if err != nil {
		return nil, err
	}
	resp, err := unary(ctx, t, params, req, t.client.SendMessage)
	if err != nil {
		return nil, err
	}
	return fromResult(resp)
}

func (t *transport) SendStreamingMessage(ctx context.Context, params a2aclient.ServiceParams, r *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	req, err := toSend(r)
	if err != nil {
		return refused(err)
	}
	return stream(ctx, t, params, req, t.client.SendStreamingMessage)
}

func (t *transport) SubscribeToTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return stream(ctx, t, params, &pb.SubscribeToTaskRequest{Tenant: r.Tenant, Id: string(r.ID)}, t.client.SubscribeToTask)
}

func (t *transport) GetTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.GetTaskRequest) (*sdk.Task, error) {
	req := &pb.GetTaskRequest{Tenant: r.Tenant, Id: string(r.ID), HistoryLength: toLength(r.HistoryLength)}
	resp, err := unary(ctx, t, params, req, t.client.GetTask)
	return fromTask(resp), err
}

func (t *transport) CancelTask(ctx context.Context, params a2aclient.ServiceParams, r *sdk.CancelTaskRequest) (*sdk.Task, error) {
	meta, err := toStruct(r.Metadata)
	if err != nil {
		return nil, err
	}
	resp, err := unary(ctx, t, params, &pb.CancelTaskRequest{Tenant: r.Tenant, Id: string(r.ID), Metadata: meta}, t.client.CancelTask)
	return fromTask(resp), err
}

func (t *transport) ListTasks(ctx context.Context, params a2aclient.ServiceParams, r *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	req, err := pbconv.ToProtoListTasksRequest(r)
	if err != nil {
		return nil, err
	}
	if r.PageSize == 0 { // unset, which is not the same as none
		req.PageSize = nil
	}
	resp, err := unary(ctx, t, params, req, t.client.ListTasks)
	if err != nil {
		return nil, err
	}
	return fromList(resp), nil
}

func (t *transport) CreateTaskPushConfig(ctx context.Context, params a2aclient.ServiceParams, r *sdk.PushConfig) (*sdk.PushConfig, error) {
	req, err := pbconv.ToProtoTaskPushConfig(r)
	if err != nil {
		return nil, err
	}
	resp, err := unary(ctx, t, params, req, t.client.CreateTaskPushNotificationConfig)
	if err != nil {
		return nil, err
	}
	return pbconv.FromProtoTaskPushConfig(resp)
}

func (t *transport) GetTaskPushConfig(ctx context.Context, params a2aclient.ServiceParams, r *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	req := &pb.GetTaskPushNotificationConfigRequest{Tenant: r.Tenant, TaskId: string(r.TaskID), Id: r.ID}
	resp, err := unary(ctx, t, params, req, t.client.GetTaskPushNotificationConfig)
	if err != nil {
		return nil, err
	}
	return pbconv.FromProtoTaskPushConfig(resp)
}

func (t *transport) ListTaskPushConfigs(ctx context.Context, params a2aclient.ServiceParams, r *sdk.ListTaskPushConfigRequest) ([]*sdk.PushConfig, error) {
	req, err := pbconv.ToProtoListTaskPushConfigRequest(r)
	if err != nil {
		return nil, err
	}
	resp, err := unary(ctx, t, params, req, t.client.ListTaskPushNotificationConfigs)
	if err != nil {
		return nil, err
	}
	list, err := pbconv.FromProtoListTaskPushConfigResponse(resp)
	if err != nil {
		return nil, err
	}
	return list.Configs, nil
}

func (t *transport) DeleteTaskPushConfig(ctx context.Context, params a2aclient.ServiceParams, r *sdk.DeleteTaskPushConfigRequest) error {
	req := &pb.DeleteTaskPushNotificationConfigRequest{Tenant: r.Tenant, TaskId: string(r.TaskID), Id: r.ID}
	_, err := unary(ctx, t, params, req, t.client.DeleteTaskPushNotificationConfig)
	return err
}

func (t *transport) GetExtendedAgentCard(ctx context.Context, params a2aclient.ServiceParams, r *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	resp, err := unary(ctx, t, params, &pb.GetExtendedAgentCardRequest{Tenant: r.Tenant}, t.client.GetExtendedAgentCard)
	if err != nil {
		return nil, err
	}
	return pbconv.FromProtoAgentCard(resp)
}

// Destroy closes the connection. Calls that are open end as if it had broken.
func (t *transport) Destroy() error { return t.conn.Close() }
