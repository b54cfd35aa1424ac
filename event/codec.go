package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
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
	u, unknown := e.Data.(*Unknown)
	switch {
	case e.Data == nil || unknown && u == nil:
		return nil, errors.New("event: an event without payload has no JSON form")
	case isControl(e.Type()):
		return nil, fmt.Errorf("event: a %s event is never stored and has no JSON form", e.Type())
	case e.Type() == "":
		return nil, fmt.Errorf("event: event %s has no type", e.ID)
	}
	out, err := e.appendEnvelope(make([]byte, 0, 320))
	if err != nil {
		return nil, err
	}
	if text, ok := e.Data.(*Text); ok && text != nil { // most events by far are deltas
		return append(appendString(append(out, `,"content":`...), text.Content), '}'), nil
	}
	start := len(out)
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
		enc := json.NewEncoder(buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e.Data); err != nil {
			return nil, fmt.Errorf("event: payload of %s event %s: %w", e.Type(), e.ID, err)
		}
		buf.Truncate(buf.Len() - 1)
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

// appendString writes a string as [EncodeJSON] does.
func appendString(out []byte, s string) []byte {
	if plain(s) {
		return append(append(append(out, '"'), s...), '"')
	}
	return append(out, EncodeJSON(s)...)
}

func isControl(typ string) bool {
	return typ == (*Continue)(nil).EventType() || typ == (*Finish)(nil).EventType()
}

// UnmarshalJSON reads what MarshalJSON writes. An object without id, seq or
// time is accepted; an unknown type is kept as [Unknown]. On an error the event
// is not changed.
func (e *Event) UnmarshalJSON(data []byte) error {
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

// withoutEnvelope returns the fields of a JSON object that are not the
// envelope's, in their order, without spaces.
func withoutEnvelope(data []byte) (json.RawMessage, error) {
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
		// Package json ignores case where it looks for the envelope's fields.
		if slices.ContainsFunc(envelopeFields, func(f string) bool { return strings.EqualFold(f, name.(string)) }) {
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
	raw := json.RawMessage(bytes.TrimSpace([]byte(arguments)))
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	if raw[0] == '{' && (TooDeep(raw) || json.Valid(raw)) {
		return raw
	}
	return EncodeJSON(map[string]string{"raw": arguments})
}

// EncodeJSON encodes v without HTML escapes. A value that has no JSON form
// becomes a string that says so, so that what happened is never lost. It may be
// [TooDeep] if v is.
func EncodeJSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok && TooDeep(raw) {
		return raw // which Bound makes a string of; package json would refuse it
	}
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
	if last := len(output) - 1; last > 0 && output[0] == '"' && output[last] == '"' {
		if inner := output[1:last]; plain(inner) {
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
