package a2agrpc

import (
	"encoding/json"
	"fmt"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
)

// Values are converted through their JSON, which is the same for all bindings: a result does not depend on the binding.
// The SDK's pbconv loses data that is not an object.

// encode converts a value of the SDK to a protobuf message.
func encode[V, M any, P interface {
	*M
	proto.Message
}](v V) (P, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	m := P(new(M))
	return m, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
}

// decodeRequest decodes a request. It refuses values that are nested deeper than JSON requests may be, and parts of
// unknown kinds, which must not be dropped silently.
func decodeRequest[V any](m proto.Message) (*V, error) {
	return decode[V](m, func(data []byte, _ any) ([]byte, error) { return data, nil })
}

// decodeAnswer decodes an answer. It omits states and roles that are newer than the generated types, and replaces parts of
// unknown kinds by notes.
func decodeAnswer[V any](m proto.Message) (*V, error) {
	v, err := decode[V](m, func(_ []byte, answer any) ([]byte, error) { return sdkjson.Of[V]().Mend(answer) })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sdk.ErrInvalidAgentResponse, err)
	}
	return v, nil
}

// decode converts a protobuf message to a value of the SDK. fit receives its JSON and the parsed value of that.
func decode[V any](m proto.Message, fit func([]byte, any) ([]byte, error)) (*V, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	fields, err := sdkjson.Parse(data)
	if err != nil {
		return nil, err
	}
	if data, err = fit(data, fields); err != nil {
		return nil, err
	}
	v := new(V)
	return v, json.Unmarshal(data, v)
}

// fromEvent decodes an event. It returns nil for a kind that is newer than the generated types.
func fromEvent(r *pb.StreamResponse) (sdk.Event, error) {
	if r.GetPayload() == nil {
		return nil, nil
	}
	e, err := decodeAnswer[sdk.StreamResponse](r)
	if err != nil {
		return nil, err
	}
	return e.Event, nil
}
