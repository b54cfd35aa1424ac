package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// envelope is the part of the JSON object that all events share.
type envelope struct {
	Seq      int64      `json:"seq,omitempty"`
	ID       string     `json:"id,omitempty"`
	TurnID   string     `json:"turnId,omitempty"`
	RunID    string     `json:"runId,omitempty"`
	Scope    string     `json:"scope,omitempty"`
	ParentID string     `json:"parentId,omitempty"`
	Type     string     `json:"type"`
	Agent    string     `json:"agent,omitempty"`
	Path     string     `json:"path,omitempty"`
	Time     *time.Time `json:"time,omitempty"`
	Partial  bool       `json:"partial,omitempty"`
	Attempt  int        `json:"attempt,omitempty"`
}

var envelopeFields = []string{"seq", "id", "turnId", "runId", "scope", "parentId", "type", "agent", "path", "time", "partial", "attempt"}

// MarshalJSON writes the event as one flat object: the envelope's fields, then
// the payload's. Control values have no JSON form and are an error.
func (e *Event) MarshalJSON() ([]byte, error) {
	switch e.Data.(type) {
	case nil:
		return nil, errors.New("agent: an event without payload has no JSON form")
	case *Continue, *Finish:
		return nil, fmt.Errorf("agent: a %s event is never stored and has no JSON form", e.Type())
	}
	env := envelope{Seq: e.Seq, ID: e.ID, TurnID: e.TurnID, RunID: e.RunID, Scope: e.Scope, ParentID: e.ParentID,
		Type: e.Type(), Agent: e.Agent, Path: e.Path, Partial: e.Partial, Attempt: e.Attempt}
	if !e.Time.IsZero() {
		t := e.Time.UTC()
		env.Time = &t
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(env); err != nil {
		return nil, err
	}
	buf.Truncate(buf.Len() - 2) // the closing brace and the newline
	start := buf.Len()
	if u, ok := e.Data.(*Unknown); ok {
		buf.Write(u.Raw)
	} else {
		if err := enc.Encode(e.Data); err != nil {
			return nil, fmt.Errorf("agent: payload of %s event %s: %w", e.Type(), e.ID, err)
		}
		buf.Truncate(buf.Len() - 1)
	}
	out := buf.Bytes()
	switch payload := out[start:]; {
	case len(payload) < 2 || payload[0] != '{':
		return nil, fmt.Errorf("agent: payload of %s event %s is not a JSON object", e.Type(), e.ID)
	case len(payload) == 2:
		return append(out[:start], '}'), nil
	default:
		payload[0] = ','
		return out, nil
	}
}

// UnmarshalJSON reads what MarshalJSON writes. An object without id, seq or
// time is accepted; an unknown type is kept as [Unknown].
func (e *Event) UnmarshalJSON(data []byte) error {
	var env envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return fmt.Errorf("agent: event: %w", err)
	}
	if env.Type == "" {
		return errors.New(`agent: event: the field "type" is missing`)
	}
	*e = Event{Seq: env.Seq, ID: env.ID, TurnID: env.TurnID, RunID: env.RunID, Scope: env.Scope, ParentID: env.ParentID,
		Agent: env.Agent, Path: env.Path, Partial: env.Partial, Attempt: env.Attempt}
	if env.Time != nil {
		e.Time = env.Time.UTC()
	}
	payload := newPayload(env.Type)
	if payload == nil {
		raw, err := withoutEnvelope(data)
		if err != nil {
			return err
		}
		e.Data = &Unknown{Type: env.Type, Raw: raw}
		return nil
	}
	if err := json.Unmarshal(data, payload); err != nil {
		return fmt.Errorf("agent: payload of %s event %s: %w", env.Type, env.ID, err)
	}
	e.Data = payload
	return nil
}

func newPayload(typ string) EventData {
	switch typ {
	case TypeUser:
		return &User{}
	case TypeHarnessStart:
		return &HarnessStart{}
	case TypeText:
		return &Text{}
	case TypeReasoning:
		return &Reasoning{}
	case TypeToolCall:
		return &ToolCall{}
	case TypeToolProgress:
		return &ToolProgress{}
	case TypeToolResult:
		return &ToolResult{}
	case TypeRelay:
		return &Relay{}
	case TypeRelayResolved:
		return &RelayResolved{}
	case TypeTransfer:
		return &Transfer{}
	case TypeState:
		return &State{}
	case TypeUsage:
		return &Usage{}
	case TypeRemoteTask:
		return &RemoteTask{}
	case TypeCompaction:
		return &Compaction{}
	case TypeNotice:
		return &Notice{}
	case TypeDiscard:
		return &Discard{}
	case TypeError:
		return &Failure{}
	case TypeHarnessEnd:
		return &HarnessEnd{}
	}
	return nil
}

func withoutEnvelope(data []byte) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("agent: event: %w", err)
	}
	for _, name := range envelopeFields {
		delete(fields, name)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// ObjectInput returns a model's tool arguments as the JSON object that a
// [ToolCall] event holds. Empty arguments are {}; what is no JSON object
// becomes {"raw": arguments}.
func ObjectInput(arguments string) json.RawMessage {
	raw := json.RawMessage(bytes.TrimSpace([]byte(arguments)))
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	if raw[0] == '{' && json.Valid(raw) {
		return raw
	}
	return EncodeJSON(map[string]string{"raw": arguments})
}

// EncodeJSON encodes v without HTML escapes. A value that has no JSON form
// becomes a string that says so, so that what happened is never lost.
func EncodeJSON(v any) json.RawMessage {
	if s, ok := v.(string); ok && plain(s) {
		b := make([]byte, 0, len(s)+2)
		return append(append(append(b, '"'), s...), '"')
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return EncodeJSON("value without a JSON form: " + err.Error())
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// OutputText returns a tool's output as the text a model reads: a JSON string's
// content, any other value as its JSON.
func OutputText(output json.RawMessage) string {
	if len(output) > 1 && output[0] == '"' {
		if inner := output[1 : len(output)-1]; plain(inner) {
			return string(inner)
		}
		var s string
		if json.Unmarshal(output, &s) == nil {
			return s
		}
	}
	return string(output)
}

// plain reports whether s is the same inside a JSON string as outside.
func plain[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}
