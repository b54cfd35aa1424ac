package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/llm"
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
// the payload's. Control values have no JSON form and are an error, and so is a
// payload that is nested so deeply that UnmarshalJSON could not read it again; see
// [Bound].
func (e *Event) MarshalJSON() ([]byte, error) {
	none := e.Data == nil || reflect.ValueOf(e.Data).IsNil()
	_, unknown := e.Data.(*Unknown)
	switch {
	case e.Data == nil || unknown && none:
		return nil, errors.New("event: an event without payload has no JSON form")
	case isControl(e.Type()):
		return nil, fmt.Errorf("event: a %s event is never stored and has no JSON form", e.Type())
	case e.Type() == "":
		return nil, fmt.Errorf("event: event %s has no type", e.ID)
	}
	room := 0
	if !none {
		room = e.room()
	}
	out, err := e.appendEnvelope(make([]byte, 0, room))
	if err != nil {
		return nil, err
	}
	if f := (fields{out: out, writing: true}); !none && walk(&f, e.Data) && !f.odd {
		return append(f.out, '}'), nil
	}
	return e.appendPayload(out)
}

// room returns how many bytes the event's JSON has at most, unless it has many escapes, or
// a payload of a kind that is rare. The payload is not nil.
func (e *Event) room() int {
	n := 200 + len(e.ID) + len(e.TurnID) + len(e.RunID) + len(e.Scope) + len(e.ParentID) + 2*len(e.Path)
	switch d := e.Data.(type) {
	case *User:
		n += written(d.Content.Text)
	case *Text:
		n += written(d.Content)
	case *Reasoning:
		n += written(d.Content) + written(d.Sealed)
	case *ToolCall:
		n += len(d.Name) + len(d.Input)
	case *ToolResult:
		n += len(d.Name) + len(d.Output)
	case *Transfer:
		n += 150 + len(d.From) + len(d.To) + written(d.Reason) + len(d.ToolCallID) + len(d.Payload) + len(d.RouteDecision)
	case *Notice:
		n += len(d.Code) + written(d.Message)
	case *Discard:
		n += len(d.Code) + written(d.Message)
	case *Compaction:
		n += written(d.Summary)
	case *HarnessEnd:
		n += 50 + len(d.AgentID) + len(d.Target) + len(d.Output)
	case *Usage:
		n += 50 + len(d.Model)
	case *Unknown:
		n += len(d.Raw)
	default:
		n += 200
	}
	return n
}

// written is how many bytes a text has in JSON, with its line breaks.
func written(s string) int { return len(s) + len(s)/16 + 8 }

// appendPayload writes the payload with package json, behind the envelope, which is not
// closed.
func (e *Event) appendPayload(out []byte) ([]byte, error) {
	start := len(out)
	u, unknown := e.Data.(*Unknown)
	buf := bytes.NewBuffer(out)
	if unknown {
		raw := u.Raw
		if len(raw) == 0 {
			raw = json.RawMessage("{}")
		}
		raw, err := withoutEnvelope(raw)
		if err != nil {
			return nil, fmt.Errorf("event: payload of %s event %s: %w", e.Type(), e.ID, err)
		}
		buf.Write(raw)
	} else {
		payload, err := encodeJSON(e.Data)
		if err != nil {
			return nil, fmt.Errorf("event: payload of %s event %s: %w", e.Type(), e.ID, err)
		}
		buf.Write(payload)
	}
	out = buf.Bytes()
	if !utf8.Valid(out) { // raw JSON of others, which is not checked for it
		out = append(out[:start:start], bytes.ToValidUTF8(out[start:], []byte("\ufffd"))...)
	}
	switch payload := out[start:]; {
	case Deeper(out, maxReadable):
		return nil, fmt.Errorf("event: payload of %s event %s: its JSON is nested deeper than %d levels and could not be read again; bound it with event.Bound",
			e.Type(), e.ID, maxReadable-1)
	case len(payload) < 2 || payload[0] != '{':
		return nil, fmt.Errorf("event: payload of %s event %s is not a JSON object", e.Type(), e.ID)
	case len(payload) == 2:
		return append(out[:start], '}'), nil
	default:
		payload[0] = ','
		return out, nil
	}
}

// appendEnvelope writes the fields that all events share as an envelope has them, with the brace
// that opens the object.
func (e *Event) appendEnvelope(out []byte) ([]byte, error) {
	out = append(out, '{')
	if e.Seq != 0 {
		out = append(strconv.AppendInt(append(out, `"seq":`...), e.Seq, 10), ',')
	}
	for _, f := range [...]struct{ name, value string }{{"id", e.ID}, {"turnId", e.TurnID}, {"runId", e.RunID}, {"scope", e.Scope}, {"parentId", e.ParentID},
		{"type", e.Type()}, {"agent", e.Agent}, {"path", e.Path}} {
		if f.value != "" {
			out = append(append(append(out, '"'), f.name...), `":`...)
			out = append(appendString(out, f.value), ',')
		}
	}
	if !e.Time.IsZero() {
		t := e.Time.UTC()
		if y := t.Year(); y < 0 || y > 9999 {
			return nil, fmt.Errorf("event: the time of event %s is outside the years 0 to 9999", e.ID)
		}
		out = append(t.AppendFormat(append(out, `"time":"`...), time.RFC3339Nano), `",`...)
	}
	if e.Partial {
		out = append(out, `"partial":true,`...)
	}
	if e.Attempt != 0 {
		out = append(strconv.AppendInt(append(out, `"attempt":`...), int64(e.Attempt), 10), ',')
	}
	return out[:len(out)-1], nil
}

func isControl(typ string) bool {
	return typ == (*Continue)(nil).EventType() || typ == (*Finish)(nil).EventType()
}

// UnmarshalJSON reads what MarshalJSON writes. An object without id, seq or
// time is accepted; an unknown type is kept as [Unknown]. On an error the event
// is not changed.
func (e *Event) UnmarshalJSON(data []byte) error {
	var f fields
	if read := f.event(data); read != nil {
		*e = *read
		return nil
	}
	return e.unmarshal(data)
}

// unmarshal reads an event with package json, whatever form it has.
func (e *Event) unmarshal(data []byte) error {
	var env envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	if env.Type == "" {
		return errors.New(`event: the field "type" is missing`)
	}
	if isControl(env.Type) {
		return fmt.Errorf("event: a %s event has no JSON form", env.Type)
	}
	decoded := Event{Seq: env.Seq, ID: env.ID, TurnID: env.TurnID, RunID: env.RunID, Scope: env.Scope, ParentID: env.ParentID,
		Agent: env.Agent, Path: env.Path, Partial: env.Partial, Attempt: env.Attempt}
	if env.Time != nil {
		decoded.Time = env.Time.UTC()
		if y := decoded.Time.Year(); y < 0 || y > 9999 {
			return fmt.Errorf("event: the time %s is outside the years 0 to 9999", env.Time)
		}
	}
	payload := New(env.Type)
	if payload == nil {
		raw, err := withoutEnvelope(data)
		if err != nil {
			return err
		}
		decoded.Data = &Unknown{Type: env.Type, Raw: raw}
		*e = decoded
		return nil
	}
	if err := decodePayload(data, payload); err != nil {
		return fmt.Errorf("event: payload of %s event %s: %w", env.Type, env.ID, err)
	}
	decoded.Data = payload
	*e = decoded
	return nil
}

// decodePayload reads what json.Unmarshal does, and a number of tokens that Go has no
// room for, such as 1e30: it is unknown, and so 0. Numbers in values of the state and of
// metadata keep their digits, those beyond all float64 as a string.
func decodePayload(data []byte, payload Data) (err error) {
	if p, ok := payload.(interface{ plainNumbers() }); ok {
		err = decodeValues(data, payload)
		p.plainNumbers()
	} else {
		err = json.Unmarshal(data, payload)
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) && strings.HasPrefix(typ.Value, "number") && typ.Type.Kind() == reflect.Int {
		return nil // all the rest was read
	}
	return err
}

// Counted returns the usage as it is added up: nothing if it cannot be true, as in logs
// of versions that believed every endpoint.
func (u *Usage) Counted() llm.Usage {
	counted, _ := llm.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens}.Plausible()
	return counted
}

// ownFields goes over the fields of an object, and reports whether each is compact, has a
// name that is written as it is, and is none of the envelope's.
func (s *scan) ownFields() bool {
	return s.each('{', '}', maxPlainDepth, func() bool {
		name, ok := s.str()
		return ok && plain(s.data[name.from:name.to]) && !ofEnvelope(string(s.data[name.from:name.to])) && s.is(':') && s.skip(maxPlainDepth-1)
	})
}

// ofEnvelope reports whether a field is the envelope's. Package json ignores case where
// it looks for one.
func ofEnvelope(name string) bool {
	for _, f := range envelopeFields {
		if strings.EqualFold(f, name) {
			return true
		}
	}
	return false
}

// withoutEnvelope returns the fields of a JSON object that are not the
// envelope's, in their order, without spaces.
func withoutEnvelope(data []byte) (json.RawMessage, error) {
	if s := (scan{data: data}); s.ownFields() && s.at == len(data) {
		return bytes.Clone(data), nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	} else if t != json.Delim('{') {
		return nil, errors.New("event: not a JSON object")
	}
	var buf bytes.Buffer
	buf.WriteByte('{')
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("event: %w", err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("event: %w", err)
		}
		if ofEnvelope(name.(string)) {
			continue
		}
		if buf.Len() > 1 {
			buf.WriteByte(',')
		}
		buf.Write(EncodeJSON(name))
		buf.WriteByte(':')
		if err := json.Compact(&buf, value); err != nil {
			return nil, fmt.Errorf("event: %w", err)
		}
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, fmt.Errorf("event: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("event: more than one JSON value")
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// ObjectInput returns a model's tool arguments as the JSON object that a
// [ToolCall] event holds. Empty arguments are {}; what is no JSON object
// becomes {"raw": arguments}. An object that is [TooDeep] is left to [Bound].
func ObjectInput(arguments string) json.RawMessage {
	object := strings.TrimSpace(arguments)
	if object == "" {
		return json.RawMessage("{}")
	}
	if object[0] == '{' {
		if raw := json.RawMessage(object); isPlain(raw) || TooDeep(raw) || json.Valid(raw) {
			return raw
		}
	}
	return rawObject(arguments)
}

// EncodeJSON encodes v without HTML escapes. A value that has no JSON form
// becomes a string that says so, so that what happened is never lost. It may be
// [TooDeep] if v is.
func EncodeJSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok {
		if TooDeep(raw) {
			return raw // which Bound makes a string of; package json would refuse it
		}
		if isPlain(raw) {
			return bytes.Clone(raw)
		}
	}
	if s, ok := v.(string); ok {
		return appendString(make([]byte, 0, written(s)+2), s)
	}
	if out, ok := appendValue(nil, v, maxPlainDepth); ok {
		return out
	}
	out, err := encodeJSON(v)
	if err != nil {
		return EncodeJSON("value without a JSON form: " + err.Error())
	}
	return out
}

// encodeJSON encodes v with package json, without HTML escapes.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// OutputText returns a tool's output as the text a model reads: a JSON string's
// content, any other value as its JSON.
func OutputText(output json.RawMessage) string {
	if last := len(output) - 1; last > 0 && output[0] == '"' && output[last] == '"' {
		s := scan{data: output}
		if text, ok := s.str(); ok && s.at == len(output) && text.form != surrogates {
			return s.text(text)
		}
		var text string
		if json.Unmarshal(output, &text) == nil {
			return text
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
