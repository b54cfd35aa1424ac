package a2agrpc

import (
	"encoding/json"
	"fmt"
	"slices"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
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

// decode converts a protobuf message to a value of the SDK.
func decode[V any](m proto.Message) (*V, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	v := new(V)
	return v, json.Unmarshal(data, v)
}

// decodeRequest decodes a request. It refuses values that are nested deeper than JSON requests may be, and parts of
// unknown kinds, which must not be dropped silently.
func decodeRequest[V any](m proto.Message) (*V, error) {
	err := protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		if len(p.Path) > maxPath {
			return fmt.Errorf("values are nested more than %d deep", maxDepth)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return decode[V](m)
}

const (
	maxDepth = 100
	// maxPath is the maximum length of a path in protobuf: three steps for each level of JSON, and those from a request
	// to a value in one of its parts.
	maxPath = 3*maxDepth + 8
)

// decodeAnswer decodes an answer. It omits parts, states and roles that are newer than the generated types.
func decodeAnswer[V any](m proto.Message) (*V, error) {
	err := protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		inner, ok := p.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok || !inner.IsValid() {
			return nil
		}
		switch m := inner.Interface().(type) {
		case *pb.Message:
			m.Parts = slices.DeleteFunc(m.Parts, unknown)
			if _, known := pb.Role_name[int32(m.Role)]; !known {
				m.Role = pb.Role_ROLE_UNSPECIFIED
			}
		case *pb.Artifact:
			m.Parts = slices.DeleteFunc(m.Parts, unknown)
		case *pb.TaskStatus:
			if _, known := pb.TaskState_name[int32(m.State)]; !known {
				m.State = pb.TaskState_TASK_STATE_UNSPECIFIED
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	v, err := decode[V](m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sdk.ErrInvalidAgentResponse, err)
	}
	return v, nil
}

// unknown reports whether a part has no content that the SDK can decode from JSON.
func unknown(p *pb.Part) bool {
	switch c := p.GetContent().(type) {
	case nil:
		return true
	case *pb.Part_Data:
		_, null := c.Data.GetKind().(*structpb.Value_NullValue)
		return null || c.Data.GetKind() == nil
	case *pb.Part_Url:
		return c.Url == ""
	}
	return false
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
