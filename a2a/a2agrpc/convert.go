package a2agrpc

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The conversions of what holds parts or metadata are here; pbconv has the rest. Both directions
// keep what JSON would keep, so that an answer does not depend on the binding.

// toStruct makes a protobuf struct of a JSON object. Values of other Go types than those of
// decoded JSON (lists of strings, raw JSON) and text that is no UTF-8 go through JSON once.
func toStruct(m map[string]any) (*structpb.Struct, error) {
	if m == nil {
		return nil, nil
	}
	if s, err := structpb.NewStruct(m); err == nil {
		return s, nil
	}
	var plain map[string]any
	if err := throughJSON(m, &plain); err != nil {
		return nil, err
	}
	return structpb.NewStruct(plain)
}

// toValue does the same for any JSON value.
func toValue(v any) (*structpb.Value, error) {
	if value, err := structpb.NewValue(v); err == nil {
		return value, nil
	}
	var plain any
	if err := throughJSON(v, &plain); err != nil {
		return nil, err
	}
	return structpb.NewValue(plain)
}

func throughJSON(v, into any) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	return err
}

func fromStruct(s *structpb.Struct) map[string]any {
	if s == nil {
		return nil
	}
	return s.AsMap()
}

// utf8 keeps text encodable: protobuf refuses strings that are no UTF-8.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// each converts the elements of a list. An empty list becomes nil.
func each[A, B any](list []A, convert func(A) (B, error)) ([]B, error) {
	var out []B
	for i, a := range list {
		b, err := convert(a)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out = append(out, b)
	}
	return out, nil
}

func toPart(p *sdk.Part) (*pb.Part, error) {
	if p == nil {
		return nil, fmt.Errorf("a part is missing")
	}
	meta, err := toStruct(p.Metadata)
	if err != nil {
		return nil, err
	}
	out := &pb.Part{Metadata: meta, Filename: utf8(p.Filename), MediaType: utf8(p.MediaType)}
	switch c := p.Content.(type) {
	case sdk.Text:
		out.Content = &pb.Part_Text{Text: utf8(string(c))}
	case sdk.Raw:
		out.Content = &pb.Part_Raw{Raw: c}
	case sdk.URL:
		out.Content = &pb.Part_Url{Url: utf8(string(c))}
	case sdk.Data:
		v, err := toValue(c.Value)
		if err != nil {
			return nil, err
		}
		out.Content = &pb.Part_Data{Data: v}
	default:
		return nil, fmt.Errorf("a part has no content")
	}
	return out, nil
}

// fromParts leaves out parts of kinds that are newer than the generated types.
func fromParts(list []*pb.Part) sdk.ContentParts {
	parts := make(sdk.ContentParts, 0, len(list))
	for _, p := range list {
		out := &sdk.Part{Filename: p.GetFilename(), MediaType: p.GetMediaType(), Metadata: fromStruct(p.GetMetadata())}
		switch c := p.GetContent().(type) {
		case *pb.Part_Text:
			out.Content = sdk.Text(c.Text)
		case *pb.Part_Raw:
			out.Content = sdk.Raw(c.Raw)
		case *pb.Part_Url:
			out.Content = sdk.URL(c.Url)
		case *pb.Part_Data:
			out.Content = sdk.Data{Value: c.Data.AsInterface()}
		default:
			continue
		}
		parts = append(parts, out)
	}
	return parts
}

var roles = map[sdk.MessageRole]pb.Role{sdk.MessageRoleUser: pb.Role_ROLE_USER, sdk.MessageRoleAgent: pb.Role_ROLE_AGENT}

func toMessage(m *sdk.Message) (*pb.Message, error) {
	if m == nil {
		return nil, nil
	}
	parts, err := each(m.Parts, toPart)
	if err != nil {
		return nil, fmt.Errorf("parts: %w", err)
	}
	meta, err := toStruct(m.Metadata)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	out := &pb.Message{MessageId: utf8(m.ID), ContextId: utf8(m.ContextID), TaskId: utf8(string(m.TaskID)), Role: roles[m.Role],
		Parts: parts, Metadata: meta, Extensions: m.Extensions}
	for _, id := range m.ReferenceTasks {
		out.ReferenceTaskIds = append(out.ReferenceTaskIds, utf8(string(id)))
	}
	return out, nil
}

func fromMessage(m *pb.Message) *sdk.Message {
	if m == nil {
		return nil
	}
	out := &sdk.Message{ID: m.GetMessageId(), ContextID: m.GetContextId(), TaskID: sdk.TaskID(m.GetTaskId()),
		Parts: fromParts(m.GetParts()), Metadata: fromStruct(m.GetMetadata()), Extensions: m.GetExtensions()}
	for role, name := range roles {
		if name == m.GetRole() {
			out.Role = role
		}
	}
	for _, id := range m.GetReferenceTaskIds() {
		out.ReferenceTasks = append(out.ReferenceTasks, sdk.TaskID(id))
	}
	return out
}

func toStatus(s sdk.TaskStatus) (*pb.TaskStatus, error) {
	message, err := toMessage(s.Message)
	if err != nil {
		return nil, fmt.Errorf("status message: %w", err)
	}
	out := &pb.TaskStatus{State: pb.TaskState(pb.TaskState_value[string(s.State)]), Message: message}
	if s.Timestamp != nil {
		out.Timestamp = timestamppb.New(*s.Timestamp)
	}
	return out, nil
}

func fromStatus(s *pb.TaskStatus) sdk.TaskStatus {
	out := sdk.TaskStatus{Message: fromMessage(s.GetMessage())}
	if s.GetState() != pb.TaskState_TASK_STATE_UNSPECIFIED {
		out.State = sdk.TaskState(s.GetState().String())
	}
	if s.GetTimestamp() != nil {
		t := s.GetTimestamp().AsTime()
		out.Timestamp = &t
	}
	return out
}

func toArtifact(a *sdk.Artifact) (*pb.Artifact, error) {
	if a == nil {
		return nil, fmt.Errorf("an artifact is missing")
	}
	parts, err := each(a.Parts, toPart)
	if err != nil {
		return nil, fmt.Errorf("artifact: %w", err)
	}
	meta, err := toStruct(a.Metadata)
	if err != nil {
		return nil, fmt.Errorf("artifact: %w", err)
	}
	return &pb.Artifact{ArtifactId: utf8(string(a.ID)), Name: utf8(a.Name), Description: utf8(a.Description), Parts: parts,
		Metadata: meta, Extensions: a.Extensions}, nil
}

func fromArtifact(a *pb.Artifact) *sdk.Artifact {
	if a == nil {
		return nil
	}
	return &sdk.Artifact{ID: sdk.ArtifactID(a.GetArtifactId()), Name: a.GetName(), Description: a.GetDescription(),
		Parts: fromParts(a.GetParts()), Metadata: fromStruct(a.GetMetadata()), Extensions: a.GetExtensions()}
}

func toTask(t *sdk.Task) (*pb.Task, error) {
	if t == nil {
		return nil, fmt.Errorf("the task is missing")
	}
	status, err := toStatus(t.Status)
	if err != nil {
		return nil, err
	}
	artifacts, err := each(t.Artifacts, toArtifact)
	if err != nil {
		return nil, err
	}
	history, err := each(t.History, toMessage)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	meta, err := toStruct(t.Metadata)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return &pb.Task{Id: utf8(string(t.ID)), ContextId: utf8(t.ContextID), Status: status, Artifacts: artifacts, History: history, Metadata: meta}, nil
}

func fromTask(t *pb.Task) *sdk.Task {
	if t == nil {
		return nil
	}
	out := &sdk.Task{ID: sdk.TaskID(t.GetId()), ContextID: t.GetContextId(), Status: fromStatus(t.GetStatus()), Metadata: fromStruct(t.GetMetadata())}
	for _, a := range t.GetArtifacts() {
		out.Artifacts = append(out.Artifacts, fromArtifact(a))
	}
	for _, m := range t.GetHistory() {
		out.History = append(out.History, fromMessage(m))
	}
	return out
}

func toEvent(e sdk.Event) (*pb.StreamResponse, error) {
	switch e := e.(type) {
	case *sdk.Message:
		m, err := toMessage(e)
		return &pb.StreamResponse{Payload: &pb.StreamResponse_Message{Message: m}}, err
	case *sdk.Task:
		t, err := toTask(e)
		return &pb.StreamResponse{Payload: &pb.StreamResponse_Task{Task: t}}, err
	case *sdk.TaskStatusUpdateEvent:
		status, err := toStatus(e.Status)
		if err != nil {
			return nil, err
		}
		meta, err := toStruct(e.Metadata)
		return &pb.StreamResponse{Payload: &pb.StreamResponse_StatusUpdate{StatusUpdate: &pb.TaskStatusUpdateEvent{
			TaskId: utf8(string(e.TaskID)), ContextId: utf8(e.ContextID), Status: status, Metadata: meta}}}, err
	case *sdk.TaskArtifactUpdateEvent:
		artifact, err := toArtifact(e.Artifact)
		if err != nil {
			return nil, err
		}
		meta, err := toStruct(e.Metadata)
		return &pb.StreamResponse{Payload: &pb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &pb.TaskArtifactUpdateEvent{
			TaskId: utf8(string(e.TaskID)), ContextId: utf8(e.ContextID), Artifact: artifact, Append: e.Append, LastChunk: e.LastChunk, Metadata: meta}}}, err
	}
	return nil, fmt.Errorf("an event is of type %T", e)
}

// fromEvent returns nil for a kind of event that is newer than the generated types.
func fromEvent(r *pb.StreamResponse) sdk.Event {
	switch p := r.GetPayload().(type) {
	case *pb.StreamResponse_Message:
		return fromMessage(p.Message)
	case *pb.StreamResponse_Task:
		return fromTask(p.Task)
	case *pb.StreamResponse_StatusUpdate:
		u := p.StatusUpdate
		return &sdk.TaskStatusUpdateEvent{TaskID: sdk.TaskID(u.GetTaskId()), ContextID: u.GetContextId(), Status: fromStatus(u.GetStatus()),
			Metadata: fromStruct(u.GetMetadata())}
	case *pb.StreamResponse_ArtifactUpdate:
		u := p.ArtifactUpdate
		return &sdk.TaskArtifactUpdateEvent{TaskID: sdk.TaskID(u.GetTaskId()), ContextID: u.GetContextId(), Artifact: fromArtifact(u.GetArtifact()),
			Append: u.GetAppend(), LastChunk: u.GetLastChunk(), Metadata: fromStruct(u.GetMetadata())}
	}
	return nil
}

func toResult(r sdk.SendMessageResult) (*pb.SendMessageResponse, error) {
	switch r := r.(type) {
	case *sdk.Message:
		m, err := toMessage(r)
		return &pb.SendMessageResponse{Payload: &pb.SendMessageResponse_Message{Message: m}}, err
	case *sdk.Task:
		t, err := toTask(r)
		return &pb.SendMessageResponse{Payload: &pb.SendMessageResponse_Task{Task: t}}, err
	}
	return nil, fmt.Errorf("the result is of type %T", r)
}

func fromResult(r *pb.SendMessageResponse) (sdk.SendMessageResult, error) {
	switch p := r.GetPayload().(type) {
	case *pb.SendMessageResponse_Message:
		return fromMessage(p.Message), nil
	case *pb.SendMessageResponse_Task:
		return fromTask(p.Task), nil
	}
	return nil, fmt.Errorf("%w: the answer holds neither a message nor a task", sdk.ErrInvalidAgentResponse)
}
