package a2agrpc

import (
	"encoding/json"
	"fmt"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/internal/plainjson"
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

// decodeRequest decodes a request. It refuses what JSON requests may not have either, with the same errors: values that are
// nested deeper, parts without content, and states and roles that are newer than the generated types.
func decodeRequest[V any](m proto.Message) (*V, error) {
	data, err := protojson.Marshal(m)
	var value any
	if err == nil {
		value, err = sdkjson.Parse(data)
	}
	if err != nil {
		return nil, sdkjson.Wrong("", err.Error())
	}
	v := new(V)
	if json.Unmarshal(data, v) == nil { // most requests are valid
		return v, nil
	}
	if data, err = sdkjson.Of[V]().Fit(value); err != nil {
		return nil, err
	}
	v = new(V)
	return v, json.Unmarshal(data, v)
}

// decodeAnswer decodes an answer. It omits states and roles that are newer than the generated types, and replaces parts of
// unknown kinds by notes.
func decodeAnswer[V any](m proto.Message) (*V, error) {
	v := new(V)
	data, err := protojson.Marshal(m)
	if err == nil && json.Unmarshal(data, v) == nil { // most answers are valid
		return v, nil
	}
	var answer any
	if err == nil {
		err = plainjson.Unmarshal(data, &answer)
	}
	if err == nil {
		data, err = sdkjson.Of[V]().Mend(answer)
	}
	if err == nil {
		v = new(V)
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sdk.ErrInvalidAgentResponse, err)
	}
	return v, nil
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
