package a2agrpc

import (
	"fmt"
	"maps"
	"math"
	"slices"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"
	"google.golang.org/protobuf/types/known/structpb"
)

func toSend(r *sdk.SendMessageRequest) (*pb.SendMessageRequest, error) {
	message, err := toMessage(r.Message)
	if err != nil {
		return nil, err
	}
	meta, err := toStruct(r.Metadata)
	if err != nil {
		return nil, err
	}
	out := &pb.SendMessageRequest{Tenant: r.Tenant, Message: message, Metadata: meta}
	if c := r.Config; c != nil {
		push, err := pbconv.ToProtoTaskPushConfig(c.PushConfig)
		if err != nil {
			return nil, err
		}
		out.Configuration = &pb.SendMessageConfiguration{AcceptedOutputModes: c.AcceptedOutputModes, ReturnImmediately: c.ReturnImmediately,
			TaskPushNotificationConfig: push, HistoryLength: toLength(c.HistoryLength)}
	}
	return out, nil
}

// fromSend also checks what the types alone do not: a part that nobody here knows is the
// caller's mistake and must not be dropped as if it had been read.
func fromSend(r *pb.SendMessageRequest) (*sdk.SendMessageRequest, error) {
	m := r.GetMessage()
	switch {
	case m == nil:
		return nil, fmt.Errorf("message is required")
	case m.GetMessageId() == "":
		return nil, fmt.Errorf("message.message_id is required")
	case m.GetRole() == pb.Role_ROLE_UNSPECIFIED:
		return nil, fmt.Errorf("message.role is required")
	}
	if i := slices.IndexFunc(m.GetParts(), func(p *pb.Part) bool { return p.GetContent() == nil }); i >= 0 {
		return nil, fmt.Errorf("message.parts[%d] has no content, or one of a kind that is not known here", i)
	}
	if err := checkStruct("metadata", r.GetMetadata()); err != nil {
		return nil, err
	}
	if err := checkStruct("message.metadata", m.GetMetadata()); err != nil {
		return nil, err
	}
	for i, p := range m.GetParts() {
		if err := checkStruct(fmt.Sprintf("message.parts[%d].metadata", i), p.GetMetadata()); err != nil {
			return nil, err
		}
		if err := checkValue(p.GetData(), 0); err != nil {
			return nil, fmt.Errorf("message.parts[%d].data: %w", i, err)
		}
	}
	out := &sdk.SendMessageRequest{Tenant: r.GetTenant(), Message: fromMessage(m), Metadata: fromStruct(r.GetMetadata())}
	if c := r.GetConfiguration(); c != nil {
		length, err := fromLength(c.HistoryLength)
		if err != nil {
			return nil, err
		}
		push, err := pbconv.FromProtoTaskPushConfig(c.GetTaskPushNotificationConfig())
		if err != nil {
			return nil, err
		}
		out.Config = &sdk.SendMessageConfig{AcceptedOutputModes: c.GetAcceptedOutputModes(), ReturnImmediately: c.GetReturnImmediately(),
			PushConfig: push, HistoryLength: length}
	}
	return out, nil
}

func toGetTask(r *sdk.GetTaskRequest) (*pb.GetTaskRequest, error) {
	return &pb.GetTaskRequest{Tenant: r.Tenant, Id: string(r.ID), HistoryLength: toLength(r.HistoryLength)}, nil
}

func fromGetTask(r *pb.GetTaskRequest) (*sdk.GetTaskRequest, error) {
	if _, err := fromLength(r.HistoryLength); err != nil {
		return nil, err
	}
	return pbconv.FromProtoGetTaskRequest(r)
}

func toCancelTask(r *sdk.CancelTaskRequest) (*pb.CancelTaskRequest, error) {
	meta, err := toStruct(r.Metadata)
	return &pb.CancelTaskRequest{Tenant: r.Tenant, Id: string(r.ID), Metadata: meta}, err
}

func toListTasks(r *sdk.ListTasksRequest) (*pb.ListTasksRequest, error) {
	req, err := pbconv.ToProtoListTasksRequest(r)
	if err == nil && r.PageSize == 0 { // unset, which is not the same as none
		req.PageSize = nil
	}
	return req, err
}

func fromListTasks(r *pb.ListTasksRequest) (*sdk.ListTasksRequest, error) {
	if _, err := fromLength(r.HistoryLength); err != nil {
		return nil, err
	}
	if r.PageSize != nil && (*r.PageSize < 0 || *r.PageSize > 100) {
		return nil, fmt.Errorf("page_size is not between 1 and 100")
	}
	return pbconv.FromProtoListTasksRequest(r)
}

// maxDepth bounds how deep values are nested, as it is for requests of JSON.
const maxDepth = 100

// checkStruct refuses an object that JSON has no form for.
func checkStruct(field string, s *structpb.Struct) error {
	if s == nil {
		return nil
	}
	if err := checkValue(structpb.NewStructValue(s), 0); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// checkValue finds what would be stored and could not be read again: numbers that are none, and
// values that are nested without end.
func checkValue(v *structpb.Value, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		if math.IsNaN(k.NumberValue) || math.IsInf(k.NumberValue, 0) {
			return fmt.Errorf("a number is not finite")
		}
	case *structpb.Value_ListValue:
		for _, e := range k.ListValue.GetValues() {
			if err := checkValue(e, depth+1); err != nil {
				return err
			}
		}
	case *structpb.Value_StructValue:
		for _, e := range k.StructValue.GetFields() {
			if err := checkValue(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func toLength(n *int) *int32 {
	if n == nil {
		return nil
	}
	length := clamp(*n)
	return &length
}

func fromLength(n *int32) (*int, error) {
	if n == nil {
		return nil, nil
	}
	if *n < 0 {
		return nil, fmt.Errorf("history_length is negative")
	}
	length := int(*n)
	return &length, nil
}

func clamp(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

func toList(r *sdk.ListTasksResponse) (*pb.ListTasksResponse, error) {
	tasks, err := each(r.Tasks, toTask)
	return &pb.ListTasksResponse{Tasks: tasks, TotalSize: clamp(r.TotalSize), PageSize: clamp(r.PageSize), NextPageToken: utf8(r.NextPageToken)}, err
}

func fromList(r *pb.ListTasksResponse) *sdk.ListTasksResponse {
	out := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, TotalSize: int(r.GetTotalSize()), PageSize: int(r.GetPageSize()), NextPageToken: r.GetNextPageToken()}
	for _, t := range r.GetTasks() {
		out.Tasks = append(out.Tasks, fromTask(t))
	}
	return out
}

// toCard brings the parameters of extensions and the headers of signatures into the form that
// the library's conversion takes.
func toCard(c *sdk.AgentCard) (*pb.AgentCard, error) {
	card := *c
	card.Capabilities.Extensions = slices.Clone(c.Capabilities.Extensions)
	for i := range card.Capabilities.Extensions {
		if err := plain(&card.Capabilities.Extensions[i].Params); err != nil {
			return nil, err
		}
	}
	card.Signatures = slices.Clone(c.Signatures)
	for i := range card.Signatures {
		if err := plain(&card.Signatures[i].Header); err != nil {
			return nil, err
		}
	}
	return pbconv.ToProtoAgentCard(&card)
}

func plain(m *map[string]any) error {
	s, err := toStruct(maps.Clone(*m))
	if err == nil && s != nil {
		*m = s.AsMap()
	}
	return err
}
