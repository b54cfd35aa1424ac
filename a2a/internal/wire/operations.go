package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
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

// decode decodes the parameters, and sets the fields that are in the path.
func decode[P any](x *exchange, doc []byte) (*P, error) {
	req := new(P)
	if err := json.Unmarshal(doc, req); err != nil {
		// The error of encoding/json would mention Go types, and does not occur for a document that fit has rewritten.
		return nil, sdkjson.Wrong("", "the parameters do not match the operation")
	}
	return req, x.bind(req)
}

// bind sets the tenant, the task and the push configuration of a request to those of the path. It returns an error if
// the body has others. It notes the task of the request.
func (x *exchange) bind(req any) error {
	v := reflect.ValueOf(req).Elem()
	for i := range v.NumField() {
		value, path := v.Field(i), ""
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		isTask := value.Type() == reflect.TypeFor[sdk.TaskID]()
		switch {
		case isTask:
			path = x.route.task
		case name == "tenant":
			path = x.tenant
		case name == "id":
			path = x.route.config
		}
		if path != "" {
			if own := value.String(); own != "" && own != path {
				return sdkjson.Wrong(name, fmt.Sprintf("is %q in the body, but %q in the path of the URL", visible.Cut(own, 64), visible.Cut(path, 64)))
			}
			value.SetString(path)
		}
		if isTask {
			x.task = sdk.TaskID(value.String())
		}
	}
	if send, ok := req.(*sdk.SendMessageRequest); ok && send.Message != nil {
		x.task = send.Message.TaskID
	}
	return nil
}

// unary returns an operation with a single result.
func unary[P, R any](do func(h a2asrv.RequestHandler, ctx context.Context, p *P) (R, error)) *operation {
	return &operation{shape: sdkjson.Of[P](), unary: func(ctx context.Context, x *exchange, doc []byte) (any, error) {
		req, err := decode[P](x, doc)
		if err != nil {
			return nil, err
		}
		return do(x.f.Handler, ctx, req)
	}}
}

// streaming returns an operation with a stream of events.
func streaming[P any](do func(h a2asrv.RequestHandler, ctx context.Context, p *P) iter.Seq2[sdk.Event, error]) *operation {
	return &operation{shape: sdkjson.Of[P](), stream: func(x *exchange, doc []byte) (func(context.Context) iter.Seq2[sdk.Event, error], error) {
		req, err := decode[P](x, doc)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) iter.Seq2[sdk.Event, error] { return do(x.f.Handler, ctx, req) }, nil
	}}
}

// operations are the protocol's operations by their names in JSON-RPC (A2A 1.0, section 5.3).
var operations = map[string]*operation{
	"SendMessage": unary(func(h a2asrv.RequestHandler, ctx context.Context, p *sdk.SendMessageRequest) (sdk.StreamResponse, error) {
		result, err := h.SendMessage(ctx, p)
		return sdk.StreamResponse{Event: result}, err
	}),
	"SendStreamingMessage":             streaming(a2asrv.RequestHandler.SendStreamingMessage),
	"GetTask":                          unary(a2asrv.RequestHandler.GetTask),
	"ListTasks":                        unary(a2asrv.RequestHandler.ListTasks),
	"CancelTask":                       unary(a2asrv.RequestHandler.CancelTask),
	"SubscribeToTask":                  streaming(a2asrv.RequestHandler.SubscribeToTask),
	"CreateTaskPushNotificationConfig": unary(a2asrv.RequestHandler.CreateTaskPushConfig),
	"GetTaskPushNotificationConfig":    unary(a2asrv.RequestHandler.GetTaskPushConfig),
	"ListTaskPushNotificationConfigs":  unary(a2asrv.RequestHandler.ListTaskPushConfigs),
	"DeleteTaskPushNotificationConfig": unary(func(h a2asrv.RequestHandler, ctx context.Context, p *sdk.DeleteTaskPushConfigRequest) (struct{}, error) {
		return struct{}{}, h.DeleteTaskPushConfig(ctx, p) // google.protobuf.Empty is {} in JSON
	}),
	"GetExtendedAgentCard": unary(a2asrv.RequestHandler.GetExtendedAgentCard),
}

// encode encodes a result.
func (x *exchange) encode(result any) ([]byte, error) {
	if card, ok := result.(*sdk.AgentCard); ok {
		return cardjson.Marshal(card)
	}
	return json.Marshal(result)
}
