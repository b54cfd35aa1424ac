package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/internal/visible"
)

// operation is an operation of the protocol (A2A 1.0, section 3.1) for both HTTP bindings. Its parameters are a
// document in the form of its shape.
type operation struct {
	shape *sdkjson.Shape
	// unary returns the single result.
	unary func(ctx context.Context, x *exchange, doc []byte) (any, error)
	// stream returns a stream of events. The operation starts only when the stream is read.
	stream func(x *exchange, doc []byte) (func(context.Context) iter.Seq2[sdk.Event, error], error)
}

// decode decodes the parameters, and sets the fields from the path with bind.
func decode[P any](x *exchange, doc []byte, bind func(x *exchange, p *P) error) (*P, error) {
	req := new(P)
	if err := json.Unmarshal(doc, req); err != nil {
		// The error of encoding/json would mention Go types, and does not occur for a document that fit has rewritten.
		return nil, sdkjson.Wrong("", "the parameters do not match the operation")
	}
	return req, bind(x, req)
}

// bind sets a field to the value from the path. It returns an error if the body has another value.
func bind[S ~string](field string, value *S, path string) error {
	if path == "" {
		return nil
	}
	if *value != "" && string(*value) != path {
		return sdkjson.Wrong(field, fmt.Sprintf("is %q in the body, but %q in the path of the URL", visible.Cut(string(*value), 64), visible.Cut(path, 64)))
	}
	*value = S(path)
	return nil
}

// unary returns an operation with a single result.
func unary[P, R any](bind func(x *exchange, p *P) error, do func(h a2asrv.RequestHandler, ctx context.Context, p *P) (R, error)) *operation {
	return &operation{shape: sdkjson.Of[P](), unary: func(ctx context.Context, x *exchange, doc []byte) (any, error) {
		req, err := decode(x, doc, bind)
		if err != nil {
			return nil, err
		}
		return do(x.f.Handler, ctx, req)
	}}
}

// streaming returns an operation with a stream of events.
func streaming[P any](bind func(x *exchange, p *P) error, do func(h a2asrv.RequestHandler, ctx context.Context, p *P) iter.Seq2[sdk.Event, error]) *operation {
	return &operation{shape: sdkjson.Of[P](), stream: func(x *exchange, doc []byte) (func(context.Context) iter.Seq2[sdk.Event, error], error) {
		req, err := decode(x, doc, bind)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) iter.Seq2[sdk.Event, error] { return do(x.f.Handler, ctx, req) }, nil
	}}
}

func bindSend(x *exchange, p *sdk.SendMessageRequest) error {
	if p.Message != nil {
		x.task = p.Message.TaskID
	}
	return bind("tenant", &p.Tenant, x.tenant)
}

func bindTask(x *exchange, tenant *string, field string, id *sdk.TaskID) error {
	err := cmp.Or(bind("tenant", tenant, x.tenant), bind(field, id, x.route.task))
	x.task = *id
	return err
}

// operations are the protocol's operations by their names in JSON-RPC (A2A 1.0, section 5.3).
var operations = map[string]*operation{
	"SendMessage": unary(bindSend, func(h a2asrv.RequestHandler, ctx context.Context, p *sdk.SendMessageRequest) (sdk.StreamResponse, error) {
		result, err := h.SendMessage(ctx, p)
		return sdk.StreamResponse{Event: result}, err
	}),
	"SendStreamingMessage": streaming(bindSend, a2asrv.RequestHandler.SendStreamingMessage),
	"GetTask": unary(func(x *exchange, p *sdk.GetTaskRequest) error {
		return bindTask(x, &p.Tenant, "id", &p.ID)
	}, a2asrv.RequestHandler.GetTask),
	"ListTasks": unary(func(x *exchange, p *sdk.ListTasksRequest) error {
		return bind("tenant", &p.Tenant, x.tenant)
	}, a2asrv.RequestHandler.ListTasks),
	"CancelTask": unary(func(x *exchange, p *sdk.CancelTaskRequest) error {
		return bindTask(x, &p.Tenant, "id", &p.ID)
	}, a2asrv.RequestHandler.CancelTask),
	"SubscribeToTask": streaming(func(x *exchange, p *sdk.SubscribeToTaskRequest) error {
		return bindTask(x, &p.Tenant, "id", &p.ID)
	}, a2asrv.RequestHandler.SubscribeToTask),
	"CreateTaskPushNotificationConfig": unary(func(x *exchange, p *sdk.PushConfig) error {
		return bindTask(x, &p.Tenant, "taskId", &p.TaskID)
	}, a2asrv.RequestHandler.CreateTaskPushConfig),
	"GetTaskPushNotificationConfig": unary(func(x *exchange, p *sdk.GetTaskPushConfigRequest) error {
		return cmp.Or(bindTask(x, &p.Tenant, "taskId", &p.TaskID), bind("id", &p.ID, x.route.config))
	}, a2asrv.RequestHandler.GetTaskPushConfig),
	"ListTaskPushNotificationConfigs": unary(func(x *exchange, p *sdk.ListTaskPushConfigRequest) error {
		return bindTask(x, &p.Tenant, "taskId", &p.TaskID)
	}, a2asrv.RequestHandler.ListTaskPushConfigs),
	"DeleteTaskPushNotificationConfig": unary(func(x *exchange, p *sdk.DeleteTaskPushConfigRequest) error {
		return cmp.Or(bindTask(x, &p.Tenant, "taskId", &p.TaskID), bind("id", &p.ID, x.route.config))
	}, func(h a2asrv.RequestHandler, ctx context.Context, p *sdk.DeleteTaskPushConfigRequest) (struct{}, error) {
		return struct{}{}, h.DeleteTaskPushConfig(ctx, p) // google.protobuf.Empty is {} in JSON
	}),
	"GetExtendedAgentCard": unary(func(x *exchange, p *sdk.GetExtendedAgentCardRequest) error {
		return bind("tenant", &p.Tenant, x.tenant)
	}, a2asrv.RequestHandler.GetExtendedAgentCard),
}

// encode encodes a result.
func (x *exchange) encode(result any) ([]byte, error) {
	if card, ok := result.(*sdk.AgentCard); ok && x.f.EncodeCard != nil {
		return x.f.EncodeCard(card)
	}
	return json.Marshal(result)
}
