package a2agrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	sdkgrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// stub answers every operation as the test says.
type stub struct {
	err  error
	give func(yield func(sdk.Event, error) bool)

	mu   sync.Mutex
	last any
	ctx  context.Context
}

func (s *stub) note(ctx context.Context, req any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.ctx = req, ctx
	if s.err != nil && s.err.Error() == "panic" {
		panic("the secret of the server")
	}
	return s.err
}

var theTask = &sdk.Task{ID: "t", ContextID: "c", Status: sdk.TaskStatus{State: sdk.TaskStateWorking}}

func (s *stub) GetTask(ctx context.Context, r *sdk.GetTaskRequest) (*sdk.Task, error) {
	return theTask, s.note(ctx, r)
}
func (s *stub) ListTasks(ctx context.Context, r *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	return &sdk.ListTasksResponse{Tasks: []*sdk.Task{theTask}, TotalSize: 7, PageSize: 1, NextPageToken: "next"}, s.note(ctx, r)
}
func (s *stub) CancelTask(ctx context.Context, r *sdk.CancelTaskRequest) (*sdk.Task, error) {
	return theTask, s.note(ctx, r)
}
func (s *stub) SendMessage(ctx context.Context, r *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	return theTask, s.note(ctx, r)
}
func (s *stub) events(ctx context.Context, r any) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		if err := s.note(ctx, r); err != nil {
			yield(nil, err)
		} else if s.give != nil {
			s.give(yield)
		} else {
			yield(theTask, nil)
		}
	}
}
func (s *stub) SubscribeToTask(ctx context.Context, r *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return s.events(ctx, r)
}
func (s *stub) SendStreamingMessage(ctx context.Context, r *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return s.events(ctx, r)
}
func (s *stub) GetTaskPushConfig(ctx context.Context, r *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	return &sdk.PushConfig{TaskID: r.TaskID, ID: r.ID, URL: "https://hooks.example"}, s.note(ctx, r)
}
func (s *stub) ListTaskPushConfigs(ctx context.Context, r *sdk.ListTaskPushConfigRequest) (*sdk.ListTaskPushConfigResponse, error) {
	return &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{{TaskID: r.TaskID, ID: "p", URL: "https://hooks.example"}}, NextPageToken: "next"}, s.note(ctx, r)
}
func (s *stub) CreateTaskPushConfig(ctx context.Context, r *sdk.PushConfig) (*sdk.PushConfig, error) {
	return r, s.note(ctx, r)
}
func (s *stub) DeleteTaskPushConfig(ctx context.Context, r *sdk.DeleteTaskPushConfigRequest) error {
	return s.note(ctx, r)
}
func (s *stub) GetExtendedAgentCard(ctx context.Context, r *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	return &sdk.AgentCard{Name: "n", Description: "d", Version: "1", SupportedInterfaces: []*sdk.AgentInterface{{URL: "u", ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"}, Skills: []sdk.AgentSkill{{ID: "s", Name: "s", Description: "d", Tags: []string{"t"}}},
		Capabilities: sdk.AgentCapabilities{Extensions: []sdk.AgentExtension{{URI: "e", Params: map[string]any{"list": []string{"a"}}}, {URI: "bare"}}},
		Signatures:   []sdk.AgentCardSignature{{Protected: "p", Signature: "s"}}}, s.note(ctx, r)
}

type served struct {
	*stub
	address string
	conn    *grpc.ClientConn
	logged  *bytes.Buffer
}

// serve serves a stub over TCP.
func serve(t *testing.T, s *stub, configure func(*service)) *served {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	logged := &bytes.Buffer{}
	svc := &service{handler: s, params: new(a2aserver.Server).ServiceParams, logger: slog.New(slog.NewTextHandler(logged, nil)), sendTimeout: sendTimeout,
		authenticate: func(ctx context.Context, _ access.Credentials) (context.Context, error) { return ctx, nil }}
	if configure != nil {
		configure(svc)
	}
	server := grpc.NewServer(limits()...)
	pb.RegisterA2AServiceServer(server, svc)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn := must.Get(grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	t.Cleanup(func() { conn.Close() })
	return &served{s, listener.Addr().String(), conn, logged}
}

// clients are ours and the protocol library's.
func (s *served) clients(t *testing.T) map[string]a2aclient.Transport {
	ours := must.Get(Binding().Dial(context.Background(), &sdk.AgentInterface{URL: s.address}, a2a.Environment{MaxResponse: 1 << 20}))
	t.Cleanup(func() { _ = ours.Destroy() })
	return map[string]a2aclient.Transport{"ours": ours, "library": sdkgrpc.NewGRPCTransport(s.conn)}
}

// first returns the error of a stream that has no event.
func first(events iter.Seq2[sdk.Event, error]) error {
	for _, err := range events {
		return err
	}
	return nil
}

// calls makes every operation of the protocol.
func calls(c a2aclient.Transport) map[string]func(context.Context) error {
	message := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("hi"))
	return map[string]func(context.Context) error{
		"SendMessage": func(ctx context.Context) error {
			_, err := c.SendMessage(ctx, nil, &sdk.SendMessageRequest{Message: message})
			return err
		},
		"SendStreamingMessage": func(ctx context.Context) error {
			return first(c.SendStreamingMessage(ctx, nil, &sdk.SendMessageRequest{Message: message}))
		},
		"SubscribeToTask": func(ctx context.Context) error {
			return first(c.SubscribeToTask(ctx, nil, &sdk.SubscribeToTaskRequest{ID: "t"}))
		},
		"GetTask": func(ctx context.Context) error {
			_, err := c.GetTask(ctx, nil, &sdk.GetTaskRequest{ID: "t"})
			return err
		},
		"ListTasks": func(ctx context.Context) error {
			_, err := c.ListTasks(ctx, nil, &sdk.ListTasksRequest{})
			return err
		},
		"CancelTask": func(ctx context.Context) error {
			_, err := c.CancelTask(ctx, nil, &sdk.CancelTaskRequest{ID: "t"})
			return err
		},
		"CreateTaskPushConfig": func(ctx context.Context) error {
			_, err := c.CreateTaskPushConfig(ctx, nil, &sdk.PushConfig{TaskID: "t", URL: "https://hooks.example"})
			return err
		},
		"GetTaskPushConfig": func(ctx context.Context) error {
			_, err := c.GetTaskPushConfig(ctx, nil, &sdk.GetTaskPushConfigRequest{TaskID: "t", ID: "p"})
			return err
		},
		"ListTaskPushConfigs": func(ctx context.Context) error {
			_, err := c.ListTaskPushConfigs(ctx, nil, &sdk.ListTaskPushConfigRequest{TaskID: "t"})
			return err
		},
		"DeleteTaskPushConfig": func(ctx context.Context) error {
			return c.DeleteTaskPushConfig(ctx, nil, &sdk.DeleteTaskPushConfigRequest{TaskID: "t", ID: "p"})
		},
		"GetExtendedAgentCard": func(ctx context.Context) error {
			_, err := c.GetExtendedAgentCard(ctx, nil, &sdk.GetExtendedAgentCardRequest{})
			return err
		},
	}
}

// The table of A2A 1.0.1, section 5.4, written down a second time.
var table = map[error]struct {
	code   codes.Code
	reason string
}{
	sdk.ErrTaskNotFound:                 {codes.NotFound, "TASK_NOT_FOUND"},
	sdk.ErrTaskNotCancelable:            {codes.FailedPrecondition, "TASK_NOT_CANCELABLE"},
	sdk.ErrPushNotificationNotSupported: {codes.FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
	sdk.ErrUnsupportedOperation:         {codes.FailedPrecondition, "UNSUPPORTED_OPERATION"},
	sdk.ErrUnsupportedContentType:       {codes.InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED"},
	sdk.ErrInvalidAgentResponse:         {codes.Internal, "INVALID_AGENT_RESPONSE"},
	sdk.ErrExtendedCardNotConfigured:    {codes.FailedPrecondition, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"},
	sdk.ErrExtensionSupportRequired:     {codes.FailedPrecondition, "EXTENSION_SUPPORT_REQUIRED"},
	sdk.ErrVersionNotSupported:          {codes.FailedPrecondition, "VERSION_NOT_SUPPORTED"},
	sdk.ErrInvalidParams:                {codes.InvalidArgument, "INVALID_PARAMS"},
	sdk.ErrInvalidRequest:               {codes.InvalidArgument, "INVALID_REQUEST"},
	sdk.ErrParseError:                   {codes.InvalidArgument, "PARSE_ERROR"},
	sdk.ErrMethodNotFound:               {codes.Unimplemented, "METHOD_NOT_FOUND"},
	sdk.ErrInternalError:                {codes.Internal, "INTERNAL_ERROR"},
	sdk.ErrServerError:                  {codes.Internal, "SERVER_ERROR"},
	sdk.ErrUnauthenticated:              {codes.Unauthenticated, "UNAUTHENTICATED"},
	sdk.ErrUnauthorized:                 {codes.PermissionDenied, "UNAUTHORIZED"},
}

// Every operation tells every error by its code, its reason and the domain, and both clients
// read them back.
func TestErrors(t *testing.T) {
	ctx := context.Background()
	for want, row := range table {
		s := serve(t, &stub{err: sdk.NewError(want, "words for the caller").WithErrorInfoMeta(map[string]string{"task": "t"})}, nil)
		_, err := pb.NewA2AServiceClient(s.conn).GetTask(ctx, &pb.GetTaskRequest{Id: "t"})
		st := status.Convert(err)
		require.Equal(t, row.code, st.Code(), want)
		require.Equal(t, "words for the caller", st.Message())
		require.Len(t, st.Details(), 1)
		info := st.Details()[0].(*errdetails.ErrorInfo)
		require.Equal(t, row.reason, info.Reason)
		require.Equal(t, "a2a-protocol.org", info.Domain)
		require.Equal(t, map[string]string{"task": "t"}, info.Metadata)
		for client, c := range s.clients(t) {
			for name, call := range calls(c) {
				require.ErrorIs(t, call(ctx), want, "%s of %s", name, client)
			}
		}
	}
}

func TestEveryOperation(t *testing.T) {
	s := serve(t, &stub{}, nil)
	for client, c := range s.clients(t) {
		for name, call := range calls(c) {
			require.NoError(t, call(context.Background()), "%s of %s", name, client)
		}
	}
	list := must.Get(pb.NewA2AServiceClient(s.conn).ListTasks(context.Background(), &pb.ListTasksRequest{PageSize: proto.Int32(3), PageToken: "x"}))
	require.Len(t, list.Tasks, 1)
	require.EqualValues(t, []any{theTask.ID, 7, 1, "next"}, []any{sdk.TaskID(list.Tasks[0].Id), int(list.TotalSize), int(list.PageSize), list.NextPageToken})
	require.Equal(t, 3, s.last.(*sdk.ListTasksRequest).PageSize)
	configs := must.Get(pb.NewA2AServiceClient(s.conn).ListTaskPushNotificationConfigs(context.Background(), &pb.ListTaskPushNotificationConfigsRequest{TaskId: "t"}))
	require.Equal(t, "next", configs.NextPageToken)
}

// What is none of the protocol's errors is logged and not told.
func TestHiddenErrors(t *testing.T) {
	for name, err := range map[string]error{
		"plain":    errors.New("open /etc/secret: no such file"),
		"wrapped":  fmt.Errorf("%w: open /etc/secret: no such file", sdk.ErrInternalError),
		"a status": status.Error(codes.Unavailable, "/etc/secret of another service"),
		"panic":    errors.New("panic"),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &stub{err: err}, nil)
			for op, call := range calls(s.clients(t)["library"]) {
				s.logged.Reset()
				got := call(context.Background())
				require.ErrorIs(t, got, sdk.ErrInternalError, op)
				require.NotContains(t, got.Error(), "secret")
				require.Contains(t, s.logged.String(), "secret")
			}
		})
	}
}

func TestEndsOfContexts(t *testing.T) {
	for err, code := range map[error]codes.Code{context.Canceled: codes.Canceled, fmt.Errorf("x: %w", context.DeadlineExceeded): codes.DeadlineExceeded} {
		s := serve(t, &stub{err: err}, nil)
		_, got := pb.NewA2AServiceClient(s.conn).GetTask(context.Background(), &pb.GetTaskRequest{Id: "t"})
		require.Equal(t, code, status.Code(got))
	}
}

// Peers of 1.0.0 had other codes; what they mean stands in the reason.
func TestReasonDecides(t *testing.T) {
	st := must.Get(status.New(codes.Unimplemented, "no").WithDetails(&errdetails.ErrorInfo{Reason: "VERSION_NOT_SUPPORTED", Domain: sdk.ProtocolDomain}))
	require.ErrorIs(t, fromError(st), sdk.ErrVersionNotSupported)
	st = must.Get(status.New(codes.NotFound, "no").WithDetails(&errdetails.ErrorInfo{Reason: "VERSION_NOT_SUPPORTED", Domain: "example.com"}))
	require.ErrorIs(t, fromError(st), sdk.ErrTaskNotFound)
	st = must.Get(status.New(codes.NotFound, "no").WithDetails(&errdetails.ErrorInfo{Reason: "SOMETHING_NEW", Domain: sdk.ProtocolDomain}))
	require.ErrorIs(t, fromError(st), sdk.ErrTaskNotFound)
}

func TestVersions(t *testing.T) {
	s := serve(t, &stub{}, nil)
	client := pb.NewA2AServiceClient(s.conn)
	for version, ok := range map[string]bool{"": true, "1.0": true, "1": false, "1.0.1": true, "0.3": false, "1.1": false, "2.0": false, "10": false, "x": false} {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "A2A-Version", version)
		_, err := client.GetTask(ctx, &pb.GetTaskRequest{Id: "t"})
		if ok {
			require.NoError(t, err, version)
			call, _ := a2asrv.CallContextFrom(s.ctx)
			told, _ := call.ServiceParams().Get("A2A-Version")
			require.Equal(t, []string{"1.0"}, told)
			continue
		}
		require.Equal(t, codes.FailedPrecondition, status.Code(err), version)
		stream := must.Get(client.SubscribeToTask(ctx, &pb.SubscribeToTaskRequest{Id: "t"}))
		_, err = stream.Recv()
		require.ErrorIs(t, fromError(status.Convert(err)), sdk.ErrVersionNotSupported, version)
	}
}

// byKey knows everybody, and says that a key shows who calls.
type byKey struct{}

func (byKey) Authenticate(context.Context, access.Credentials) (access.User, error) {
	return access.User{Name: "ann"}, nil
}

func (byKey) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	return map[sdk.SecuritySchemeName]sdk.SecurityScheme{"key": sdk.APIKeySecurityScheme{Location: sdk.APIKeySecuritySchemeLocationHeader, Name: "X-Desk-Key"}}
}

// Extensions may come in one entry or in several, and what was activated goes back. Handlers see no credentials.
func TestExtensions(t *testing.T) {
	root := must.Get(agent.New("root", "Is never asked.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil }))
	real := must.Get(a2aserver.New(root, sessiontest.Memory(t), a2aserver.WithAuthenticator(byKey{})))
	t.Cleanup(func() { require.NoError(t, real.Close(context.Background())) })
	s := serve(t, &stub{}, func(svc *service) { svc.params = real.ServiceParams })
	var inner *stub = s.stub
	inner.give = func(yield func(sdk.Event, error) bool) {
		call, _ := a2asrv.CallContextFrom(inner.ctx)
		for _, uri := range call.Extensions().RequestedURIs() {
			call.Extensions().Activate(&sdk.AgentExtension{URI: uri})
		}
		params := map[string]any{}
		for name, values := range call.ServiceParams().List() {
			params[name] = strings.Join(values, ",")
		}
		yield(&sdk.Task{ID: "t", ContextID: "c", Metadata: params}, nil)
	}
	ctx := metadata.AppendToOutgoingContext(context.Background(), "a2a-extensions", "https://a.example, https://b.example", "a2a-extensions", "https://c.example",
		"authorization", "Bearer secret", "x-desk-key", "secret", "cookie", "k=secret", "x-other", "y")
	stream := must.Get(pb.NewA2AServiceClient(s.conn).SubscribeToTask(ctx, &pb.SubscribeToTaskRequest{Id: "t"}))
	answer := must.Get(stream.Recv())
	params := answer.GetTask().GetMetadata().AsMap()
	require.Equal(t, "y", params["x-other"])
	require.NotContains(t, fmt.Sprint(params), "secret")
	_, err := stream.Recv()
	require.Error(t, err)
	require.Equal(t, []string{"https://a.example,https://b.example,https://c.example"}, stream.Trailer().Get("a2a-extensions"))
}

func data(v *structpb.Value) *pb.Part { return &pb.Part{Content: &pb.Part_Data{Data: v}} }

func nested(depth int) *structpb.Value {
	v := structpb.NewNullValue()
	for range depth {
		v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
	}
	return v
}

// Whatever bytes make a request, they are refused or arrive as JSON can hold them.
func FuzzRequests(f *testing.F) {
	seed := must.Get(encode[*sdk.SendMessageRequest, pb.SendMessageRequest](&sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("hi"), sdk.NewDataPart([]any{1.0, "x"}))}))
	data := must.Get(proto.Marshal(seed))
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var r pb.SendMessageRequest
		if proto.Unmarshal(data, &r) != nil {
			return
		}
		req, err := decodeRequest[sdk.SendMessageRequest](&r)
		if err != nil {
			return
		}
		must.Get(json.Marshal(req))
		must.Get(encode[*sdk.SendMessageRequest, pb.SendMessageRequest](req))
	})
}

// What JSON refuses is refused over gRPC, by the checks that all bindings share.
func TestInvalidRequests(t *testing.T) {
	root := must.Get(agent.New("root", "Is never asked.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) { t.Error("an invalid request got through") }
	}))
	real := must.Get(a2aserver.New(root, sessiontest.Memory(t)))
	t.Cleanup(func() { require.NoError(t, real.Close(context.Background())) })
	s := serve(t, &stub{}, func(svc *service) { svc.handler = real.RequestHandler() })
	client := pb.NewA2AServiceClient(s.conn)
	ctx := context.Background()
	negative, large := int32(-1), int32(101)
	user := func(parts ...*pb.Part) *pb.SendMessageRequest {
		return &pb.SendMessageRequest{Message: &pb.Message{MessageId: "m", Role: pb.Role_ROLE_USER, Parts: parts}}
	}
	for name, call := range map[string]func() error{
		"no message":    func() error { _, err := client.SendMessage(ctx, &pb.SendMessageRequest{}); return err },
		"no message id": func() error { r := user(); r.Message.MessageId = ""; _, err := client.SendMessage(ctx, r); return err },
		"no role":       func() error { r := user(); r.Message.Role = 0; _, err := client.SendMessage(ctx, r); return err },
		"an unknown role": func() error {
			r := user(&pb.Part{Content: &pb.Part_Text{Text: "hi"}})
			r.Message.Role = 7
			_, err := client.SendMessage(ctx, r)
			return err
		},
		"an unknown part": func() error { _, err := client.SendMessage(ctx, user(&pb.Part{})); return err },
		"no number": func() error {
			_, err := client.SendMessage(ctx, user(data(structpb.NewNumberValue(math.NaN()))))
			return err
		},
		"an infinite number": func() error {
			_, err := client.SendMessage(ctx, user(data(structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(math.Inf(1))}}))))
			return err
		},
		"values without end": func() error { _, err := client.SendMessage(ctx, user(data(nested(200)))); return err },
		"metadata without end": func() error {
			r := user(&pb.Part{Content: &pb.Part_Text{Text: "hi"}})
			r.Message.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"x": nested(200)}}
			_, err := client.SendMessage(ctx, r)
			return err
		},
		"a negative length": func() error {
			r := user(&pb.Part{Content: &pb.Part_Text{Text: "hi"}})
			r.Configuration = &pb.SendMessageConfiguration{HistoryLength: &negative}
			_, err := client.SendMessage(ctx, r)
			return err
		},
		"no task": func() error { _, err := client.GetTask(ctx, &pb.GetTaskRequest{}); return err },
		"a negative length, get": func() error {
			_, err := client.GetTask(ctx, &pb.GetTaskRequest{Id: "t", HistoryLength: &negative})
			return err
		},
		"a long page": func() error { _, err := client.ListTasks(ctx, &pb.ListTasksRequest{PageSize: &large}); return err },
		"a negative length, list": func() error {
			_, err := client.ListTasks(ctx, &pb.ListTasksRequest{HistoryLength: &negative})
			return err
		},
		"a negative length, stream": func() error {
			stream, err := client.SendStreamingMessage(ctx, &pb.SendMessageRequest{Configuration: &pb.SendMessageConfiguration{HistoryLength: &negative}})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"a hook without a URL": func() error {
			_, err := client.CreateTaskPushNotificationConfig(ctx, &pb.TaskPushNotificationConfig{TaskId: "t"})
			return err
		},
	} {
		err := call()
		require.Equal(t, codes.InvalidArgument, status.Code(err), name)
		require.ErrorIs(t, fromError(status.Convert(err)), sdk.ErrInvalidParams, name)
		require.NotContains(t, err.Error(), "json:", name) // it would name types of Go
		if name == "a long page" {
			require.Equal(t, "pageSize", status.Convert(err).Details()[0].(*errdetails.BadRequest).FieldViolations[0].Field)
		}
	}
}

// Data of any kind of JSON goes there and back, in all places.
func TestRoundTrip(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 5, time.UTC)
	parts := sdk.ContentParts{sdk.NewTextPart("text"), sdk.NewDataPart([]any{"a", 1.5, nil, map[string]any{"x": true}}), sdk.NewDataPart("words"),
		{Content: sdk.Raw("bytes"), Filename: "f", MediaType: "application/pdf", Metadata: map[string]any{"k": "v"}}, sdk.NewFileURLPart("https://files.example/x", "image/png")}
	message := &sdk.Message{ID: "m", ContextID: "c", TaskID: "t", Role: sdk.MessageRoleAgent, Parts: parts, Extensions: []string{"e"},
		ReferenceTasks: []sdk.TaskID{"r"}, Metadata: map[string]any{"chain": []any{"a"}}}
	artifact := &sdk.Artifact{ID: "a", Name: "n", Description: "d", Parts: parts, Extensions: []string{"e"}, Metadata: map[string]any{"k": "v"}}
	task := &sdk.Task{ID: "t", ContextID: "c", Status: sdk.TaskStatus{State: sdk.TaskStateInputRequired, Message: message, Timestamp: &now},
		Artifacts: []*sdk.Artifact{artifact}, History: []*sdk.Message{message}, Metadata: map[string]any{"k": "v"}}
	all := []sdk.Event{message, task, &sdk.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: task.Status, Metadata: map[string]any{"k": "v"}},
		&sdk.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Artifact: artifact, Append: true, LastChunk: true, Metadata: map[string]any{"k": "v"}}}
	s := serve(t, &stub{give: func(yield func(sdk.Event, error) bool) {
		for _, e := range all {
			yield(e, nil)
		}
	}}, nil)
	c := s.clients(t)["ours"]
	got := must.All(c.SubscribeToTask(context.Background(), nil, &sdk.SubscribeToTaskRequest{ID: "t"}))
	require.Equal(t, all, got)

	length := 3
	sent := &sdk.SendMessageRequest{Tenant: "x", Message: message, Metadata: map[string]any{"k": "v"}, Config: &sdk.SendMessageConfig{AcceptedOutputModes: []string{"text/plain"},
		ReturnImmediately: true, HistoryLength: &length, PushConfig: &sdk.PushConfig{URL: "https://hooks.example", Token: "t", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "c"}}}}
	must.Get(c.SendMessage(context.Background(), nil, sent))
	require.Equal(t, sent, s.last)
}

// Values that only JSON can carry, and text that is no UTF-8, do not break an answer.
func TestValuesOfOtherTypes(t *testing.T) {
	s := serve(t, &stub{give: func(yield func(sdk.Event, error) bool) {
		yield(&sdk.Task{ID: "t", ContextID: "c", Artifacts: []*sdk.Artifact{{ID: "a", Parts: sdk.ContentParts{sdk.NewTextPart("\xff"),
			sdk.NewDataPart(json.RawMessage(`{"n":1}`))}}}, Metadata: map[string]any{"list": []string{"a"}}}, nil)
	}}, nil)
	for _, c := range s.clients(t) {
		for e, err := range c.SubscribeToTask(context.Background(), nil, &sdk.SubscribeToTaskRequest{ID: "t"}) {
			require.NoError(t, err)
			task := e.(*sdk.Task)
			require.Equal(t, "\uFFFD", task.Artifacts[0].Parts[0].Text())
			require.Equal(t, map[string]any{"n": 1.0}, task.Artifacts[0].Parts[1].Data())
			require.Equal(t, []any{"a"}, task.Metadata["list"])
		}
	}
}

// States, roles and events of a later protocol are passed over by the client, and parts are replaced by notes.
func TestUnknownParts(t *testing.T) {
	parts := []*pb.Part{{}, data(structpb.NewNullValue()), {Content: &pb.Part_Url{}}, {Content: &pb.Part_Text{Text: "known"}}}
	message := &pb.Message{MessageId: "m", Role: 77, Parts: parts}
	task := &pb.Task{Id: "t", ContextId: "c", Status: &pb.TaskStatus{State: 77, Message: message}, Artifacts: []*pb.Artifact{{ArtifactId: "a", Parts: parts}}}
	got := must.Get(decodeAnswer[sdk.Task](proto.CloneOf(task)))
	note := sdk.NewTextPart("[part of an unknown kind]")
	require.Equal(t, sdk.ContentParts{note, note, note, sdk.NewTextPart("known")}, got.Artifacts[0].Parts)
	require.Equal(t, got.Artifacts[0].Parts, got.Status.Message.Parts)
	require.Empty(t, got.Status.Message.Role)
	require.Empty(t, got.Status.State)
	got = must.Get(decodeAnswer[sdk.Task](&pb.Task{Id: "t"}))
	require.Equal(t, &sdk.Task{ID: "t"}, got)
	deep := must.Get(structpb.NewValue(1))
	for range 120 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	got = must.Get(decodeAnswer[sdk.Task](&pb.Task{Id: "t", Artifacts: []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{data(deep)}}}}))
	require.NotNil(t, got.Artifacts[0].Parts[0].Data(), "deeper than requests may be")
	event := must.Get(fromEvent(&pb.StreamResponse{}))
	require.Nil(t, event)
	_, err := decodeAnswer[sdk.StreamResponse](&pb.SendMessageResponse{})
	require.ErrorIs(t, err, sdk.ErrInvalidAgentResponse)
}

// A client that does not read loses its stream, and holds no goroutine.
func TestSlowClient(t *testing.T) {
	ended := make(chan struct{})
	s := serve(t, &stub{give: func(yield func(sdk.Event, error) bool) {
		defer close(ended)
		for yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(strings.Repeat("x", 10_000))), nil) {
		}
	}}, func(svc *service) { svc.sendTimeout = 100 * time.Millisecond })
	stream := must.Get(pb.NewA2AServiceClient(s.conn).SubscribeToTask(context.Background(), &pb.SubscribeToTaskRequest{Id: "t"}))
	_, err := stream.Recv()
	for <-ended; err == nil; {
		_, err = stream.Recv()
	}
	require.Equal(t, codes.Aborted, status.Code(err))
}

func TestAuthentication(t *testing.T) {
	var got access.Credentials
	s := serve(t, &stub{}, func(svc *service) {
		svc.authenticate = func(ctx context.Context, c access.Credentials) (context.Context, error) {
			got = c
			if h := c.Header("Authorization"); len(h) == 1 && h[0] == "Bearer right" {
				return ctx, nil
			}
			return nil, sdk.ErrUnauthenticated
		}
	})
	for client, c := range s.clients(t) {
		for name, call := range calls(c) {
			require.ErrorIs(t, call(context.Background()), sdk.ErrUnauthenticated, "%s of %s", name, client)
		}
	}
	require.Nil(t, s.last, "the handler saw none of them")
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer right", "cookie", "a=1; b=2", "cookie", "b=3")
	must.Get(pb.NewA2AServiceClient(s.conn).GetTask(ctx, &pb.GetTaskRequest{Id: "t"}))
	require.Equal(t, "1", got.Cookie("a"))
	require.Empty(t, got.Cookie("b"), "there are two")
	require.Empty(t, got.Query("a"))
	require.Empty(t, got.Certificates)
}

// TestCookiesOfPages: a page's call, which a proxy forwards with the page's origin, has its cookies if the page is of the
// server's own origin.
func TestCookiesOfPages(t *testing.T) {
	var got access.Credentials
	s := serve(t, &stub{}, func(svc *service) {
		svc.authenticate = func(_ context.Context, c access.Credentials) (context.Context, error) {
			got = c
			return nil, sdk.ErrUnauthenticated
		}
	})
	from := func(origin string) {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "cookie", "a=1", "origin", origin)
		_, err := pb.NewA2AServiceClient(s.conn).GetTask(ctx, &pb.GetTaskRequest{Id: "t"})
		require.Equal(t, codes.Unauthenticated, status.Code(err))
	}
	from("https://pages.example.com")
	require.Nil(t, got.Cookie)
	from("https://" + s.address)
	require.NotNil(t, got.Cookie)
	require.Equal(t, "1", got.Cookie("a"))
}

// TestAnswersWithoutContent: an answer that has no content, or less than its kind needs, is an error or empty, and no panic.
func TestAnswersWithoutContent(t *testing.T) {
	_, err := decodeAnswer[sdk.StreamResponse](&pb.SendMessageResponse{})
	require.ErrorIs(t, err, sdk.ErrInvalidAgentResponse)
	for _, r := range []*pb.StreamResponse{{}, {Payload: &pb.StreamResponse_Message{}}, {Payload: &pb.StreamResponse_Task{}},
		{Payload: &pb.StreamResponse_StatusUpdate{}}, {Payload: &pb.StreamResponse_ArtifactUpdate{}}} {
		require.NotPanics(t, func() { _, _ = fromEvent(r) })
	}
}
