package a2agrpc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/server/access"
)

// sendTimeout bounds the time that a client takes to accept one event of a stream.
const sendTimeout = 30 * time.Second

// service answers gRPC calls through the handler that all bindings share. It contains all safety checks instead of
// interceptors, so that they apply on any grpc.Server.
type service struct {
	pb.UnimplementedA2AServiceServer
	handler      a2asrv.RequestHandler
	authenticate func(context.Context, access.Credentials) (context.Context, error)
	params       func(http.Header) *a2asrv.ServiceParams
	logger       *slog.Logger
	sendTimeout  time.Duration
}

// begin checks the caller, the protocol version and the request, and returns the context and the request for the handler.
// The context ends when the caller's access is revoked, at the latest when the call ends.
func begin[Q any](incoming context.Context, s *service, r proto.Message) (context.Context, *a2asrv.CallContext, *Q, error) {
	md, _ := metadata.FromIncomingContext(incoming)
	header := make(http.Header, len(md)+1)
	for name, values := range md {
		header[http.CanonicalHeaderKey(name)] = values
	}
	ctx, err := s.authenticate(incoming, credentialsOf(incoming, header))
	if err != nil {
		return incoming, nil, nil, s.fail(incoming, err)
	}
	ctx, stop := access.UntilRevoked(ctx)
	context.AfterFunc(incoming, stop)
	version, err := wire.Negotiate(md.Get(sdk.SvcParamVersion), string(sdk.Version)) // the name of the service contains the version
	if err != nil {
		return ctx, nil, nil, s.fail(ctx, err)
	}
	header.Set(sdk.SvcParamVersion, version)
	ctx, call := a2asrv.NewCallContext(ctx, s.params(header))
	req, err := decodeRequest[Q](r)
	if err != nil {
		err = s.fail(ctx, err)
	}
	return ctx, call, req, err
}

// fail returns the status of a handler's error, or says that the caller's access was revoked. It logs an error that the
// status hides.
func (s *service) fail(ctx context.Context, err error) error {
	st, hidden := toError(cmp.Or(wire.Revoked(ctx), err))
	if hidden && ctx.Err() == nil {
		method, _ := grpc.Method(ctx)
		s.logger.Error("a call failed", "method", method, "error", err)
	}
	return st
}

// recovered turns a panic into an internal error without details, and logs the panic.
func (s *service) recovered(ctx context.Context, err *error) {
	if r := recover(); r != nil {
		method, _ := grpc.Method(ctx)
		s.logger.Error("a call panicked", "method", method, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err, _ = toError(sdk.ErrInternalError)
	}
}

// extensionTrailer returns the metadata that names the extensions that an answer uses.
func extensionTrailer(call *a2asrv.CallContext) metadata.MD {
	uris := call.Extensions().ActivatedURIs()
	if len(uris) == 0 {
		return nil
	}
	return metadata.Pairs(strings.ToLower(sdk.SvcParamExtensions), strings.Join(uris, ","))
}

// answer serves a call with one answer.
func answer[M any, P interface {
	*M
	proto.Message
}, Q, R any](ctx context.Context, s *service, r proto.Message, call func(context.Context, *Q) (R, error)) (a P, err error) {
	defer s.recovered(ctx, &err)
	ctx, params, req, err := begin[Q](ctx, s, r)
	if err != nil {
		return nil, err
	}
	result, err := call(ctx, req)
	if md := extensionTrailer(params); md != nil {
		// It fails only after the answer has begun.
		_ = grpc.SetTrailer(ctx, md)
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if a, err = encode[R, M, P](result); err != nil {
		return nil, s.fail(ctx, fmt.Errorf("the answer cannot be encoded: %w", err))
	}
	return a, nil
}

// events serves a call with a stream of answers.
func events[Q any](s *service, stream grpc.ServerStreamingServer[pb.StreamResponse], r proto.Message, call func(context.Context, *Q) iter.Seq2[sdk.Event, error]) (err error) {
	ctx := stream.Context()
	defer s.recovered(ctx, &err)
	ctx, params, req, err := begin[Q](ctx, s, r)
	if err != nil {
		return err
	}
	defer func() { stream.SetTrailer(extensionTrailer(params)) }()
	for e, err := range call(ctx, req) {
		if err = cmp.Or(ctx.Err(), err); err != nil { // the client disconnected, or its access was revoked
			return s.fail(ctx, err)
		}
		message, err := encode[sdk.StreamResponse, pb.StreamResponse](sdk.StreamResponse{Event: e})
		if err != nil {
			return s.fail(ctx, fmt.Errorf("an event cannot be encoded: %w", err))
		}
		if err := s.send(stream, message); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return s.fail(ctx, err)
	}
	return nil
}

// send sends an event, and fails if the client does not accept it in time: a client that does not read could block the
// stream forever. The goroutine ends with the call.
func (s *service) send(stream grpc.ServerStreamingServer[pb.StreamResponse], message *pb.StreamResponse) error {
	sent := make(chan error, 1)
	go func() { sent <- stream.Send(message) }()
	timer := time.NewTimer(s.sendTimeout)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-timer.C:
		return status.Errorf(codes.Aborted, "the client did not read an event within %s", s.sendTimeout)
	}
}

func (s *service) SendMessage(ctx context.Context, r *pb.SendMessageRequest) (*pb.SendMessageResponse, error) {
	return answer[pb.SendMessageResponse](ctx, s, r, func(ctx context.Context, req *sdk.SendMessageRequest) (sdk.StreamResponse, error) {
		result, err := s.handler.SendMessage(ctx, req)
		return sdk.StreamResponse{Event: result}, err
	})
}

func (s *service) SendStreamingMessage(r *pb.SendMessageRequest, stream grpc.ServerStreamingServer[pb.StreamResponse]) error {
	return events(s, stream, r, s.handler.SendStreamingMessage)
}

func (s *service) SubscribeToTask(r *pb.SubscribeToTaskRequest, stream grpc.ServerStreamingServer[pb.StreamResponse]) error {
	return events(s, stream, r, s.handler.SubscribeToTask)
}

func (s *service) GetTask(ctx context.Context, r *pb.GetTaskRequest) (*pb.Task, error) {
	return answer[pb.Task](ctx, s, r, s.handler.GetTask)
}

func (s *service) ListTasks(ctx context.Context, r *pb.ListTasksRequest) (*pb.ListTasksResponse, error) {
	return answer[pb.ListTasksResponse](ctx, s, r, s.handler.ListTasks)
}

func (s *service) CancelTask(ctx context.Context, r *pb.CancelTaskRequest) (*pb.Task, error) {
	return answer[pb.Task](ctx, s, r, s.handler.CancelTask)
}

func (s *service) CreateTaskPushNotificationConfig(ctx context.Context, r *pb.TaskPushNotificationConfig) (*pb.TaskPushNotificationConfig, error) {
	return answer[pb.TaskPushNotificationConfig](ctx, s, r, s.handler.CreateTaskPushConfig)
}

func (s *service) GetTaskPushNotificationConfig(ctx context.Context, r *pb.GetTaskPushNotificationConfigRequest) (*pb.TaskPushNotificationConfig, error) {
	return answer[pb.TaskPushNotificationConfig](ctx, s, r, s.handler.GetTaskPushConfig)
}

func (s *service) ListTaskPushNotificationConfigs(ctx context.Context, r *pb.ListTaskPushNotificationConfigsRequest) (*pb.ListTaskPushNotificationConfigsResponse, error) {
	return answer[pb.ListTaskPushNotificationConfigsResponse](ctx, s, r, s.handler.ListTaskPushConfigs)
}

func (s *service) DeleteTaskPushNotificationConfig(ctx context.Context, r *pb.DeleteTaskPushNotificationConfigRequest) (*emptypb.Empty, error) {
	return answer[emptypb.Empty](ctx, s, r, func(ctx context.Context, req *sdk.DeleteTaskPushConfigRequest) (struct{}, error) {
		return struct{}{}, s.handler.DeleteTaskPushConfig(ctx, req)
	})
}

func (s *service) GetExtendedAgentCard(ctx context.Context, r *pb.GetExtendedAgentCardRequest) (*pb.AgentCard, error) {
	return answer[pb.AgentCard](ctx, s, r, func(ctx context.Context, req *sdk.GetExtendedAgentCardRequest) (json.RawMessage, error) {
		card, err := s.handler.GetExtendedAgentCard(ctx, req)
		if err != nil {
			return nil, err
		}
		return cardjson.Marshal(card)
	})
}
