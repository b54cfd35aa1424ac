package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/llm"
)

// envelope contains the JSON fields that all events have.
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

// MarshalJSON returns the event as one flat JSON object: the fields of the envelope, then those of the payload. It
// returns an error for a control value, for an event without a payload or type, for a time outside the years 0 to
// 9999, and for a payload that is nested too deeply for UnmarshalJSON to read it back; see [Bound].
func (e *Event) MarshalJSON() ([]byte, error) {
	payload, err := e.payloadJSON()
	if err != nil {
		return nil, err
	}
	return e.whole(payload)
}

// whole returns the event's JSON. payload is the payload's JSON object.
func (e *Event) whole(payload []byte) ([]byte, error) {
	env := envelope{Seq: e.Seq, ID: e.ID, TurnID: e.TurnID, RunID: e.RunID, Scope: e.Scope, ParentID: e.ParentID, Type: e.Type(),
		Agent: e.Agent, Path: e.Path, Partial: e.Partial, Attempt: e.Attempt}
	if !e.Time.IsZero() {
		at := e.Time.UTC()
		if !hasJSON(at) {
			return nil, fmt.Errorf("event: the time of event %s is outside the years 0 to 9999", e.ID)
		}
		env.Time = &at
	}
	out, err := Marshal(env)
	if err != nil {
		return nil, fmt.Errorf("event: event %s: %w", e.ID, err)
	}
	if len(payload) == len("{}") {
		return out, nil
	}
	out[len(out)-1] = ','
	return append(out, payload[1:]...), nil
}

// hasJSON reports whether a time in UTC can be encoded as JSON.
func hasJSON(at time.Time) bool { return at.Year() >= 0 && at.Year() <= 9999 }

// payloadJSON returns the payload as a JSON object without spaces. It is valid UTF-8 and can be read back.
func (e *Event) payloadJSON() (payload []byte, err error) {
	switch u, unknown := e.Data.(*Unknown); {
	case e.Data == nil || reflect.ValueOf(e.Data).IsNil():
		return nil, errors.New("event: an event without payload has no JSON form")
	case slices.Contains(controls, e.Type()):
		return nil, fmt.Errorf("event: a %s event is a control value: it is never stored and has no JSON form", e.Type())
	case e.Type() == "":
		return nil, fmt.Errorf("event: event %s has no type", e.ID)
	case !unknown:
		payload, err = Marshal(e.Data)
	case len(u.Raw) == 0:
		payload = []byte("{}")
	default:
		payload, err = withoutEnvelope(u.Raw)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("event: payload of %s event %s: %w", e.Type(), e.ID, err)
	case Deeper(payload, maxReadable):
		return nil, fmt.Errorf("event: payload of %s event %s: its JSON is nested deeper than %d levels and could not be read back: call event.Bound first",
			e.Type(), e.ID, maxReadable-1)
	case !utf8.Valid(payload): // json.Marshal does not check raw JSON for valid UTF-8
		payload = bytes.ToValidUTF8(payload, []byte("\ufffd"))
	}
	return payload, nil
}

// controls are the types of control values.
var controls = []string{(*Continue)(nil).eventType(), (*Finish)(nil).eventType()}

// UnmarshalJSON reads the output of MarshalJSON. The fields id, seq and time may be missing. An event of an unknown
// type becomes an [Unknown]. After an error, the event is unchanged.
func (e *Event) UnmarshalJSON(data []byte) error {
	var env envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	if env.Type == "" {
		return errors.New(`event: the field "type" is missing or empty`)
	}
	if slices.Contains(controls, env.Type) {
		return fmt.Errorf("event: a %s event is a control value and has no JSON form", env.Type)
	}
	decoded := Event{Seq: env.Seq, ID: env.ID, TurnID: env.TurnID, RunID: env.RunID, Scope: env.Scope, ParentID: env.ParentID,
		Agent: env.Agent, Path: env.Path, Partial: env.Partial, Attempt: env.Attempt}
	if env.Time != nil {
		decoded.Time = env.Time.UTC()
		if !hasJSON(decoded.Time) {
			return fmt.Errorf("event: the time %s is outside the years 0 to 9999", env.Time)
		}
	}
	if decoded.Data = New(env.Type); decoded.Data == nil {
		raw, err := withoutEnvelope(data)
		if err != nil {
			return fmt.Errorf("event: %w", err)
		}
		decoded.Data = &Unknown{Type: env.Type, Raw: raw}
	} else if err := decodePayload(data, decoded.Data); err != nil {
		return fmt.Errorf("event: payload of %s event %s: %w", env.Type, env.ID, err)
	}
	*e = decoded
	return nil
}

// decodePayload works like json.Unmarshal, with two exceptions. A number of tokens that does not fit in an int, such
// as 1e30, becomes 0. Numbers in the state and in metadata keep their digits, and a number that no float64 can
// represent becomes a string.
func decodePayload(data []byte, payload Data) (err error) {
	switch d := payload.(type) {
	case *User:
		err = plainjson.Unmarshal(data, d)
		plainNumbers(d.Metadata, new(bool))
	case *State:
		err = plainjson.Unmarshal(data, d)
		plainNumbers(d.Delta, new(bool))
	default:
		err = json.Unmarshal(data, payload)
		addNulls(reflect.ValueOf(payload).Elem())
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) && strings.HasPrefix(typ.Value, "number") && typ.Type.Kind() == reflect.Int {
		return nil // json.Unmarshal has read all other fields
	}
	return err
}

// addNulls sets each missing field of raw JSON that is always written to null, the value that MarshalJSON writes for
// it.
func addNulls(payload reflect.Value) {
	for i := range payload.NumField() {
		if raw, ok := payload.Field(i).Addr().Interface().(*json.RawMessage); ok && *raw == nil && !omits(payload, i) {
			*raw = json.RawMessage("null")
		}
	}
}

// Decode returns the event at a position of a log from its stored JSON. It never fails, so that damage to one event
// affects only that event. If the JSON cannot be read or has another seq, Decode returns an [Unknown] of
// [TypeUnreadable] with the given seq and the fields of the envelope that come before the damage. JSON deeper than
// [MaxDepth], which earlier versions stored, becomes a string, as with [Bound]. Decode does not keep data.
func Decode(seq int64, data []byte) *Event {
	e := new(Event)
	err := e.UnmarshalJSON(data)
	switch {
	case err != nil:
	case e.Seq != seq:
		err = fmt.Errorf("its seq is %d", e.Seq)
	case e.Partial:
		err = errors.New("it is partial, but only complete events are stored")
	default:
		e.Data, _ = Bound(e.Data)
		return e
	}
	return unreadable(seq, data, err)
}

// Counted returns the usage for sums. It is zero if the usage is implausible. Earlier versions stored everything that
// an endpoint reported.
func (u *Usage) Counted() llm.Usage {
	counted, _ := llm.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens}.Plausible()
	return counted
}

// isEnvelopeField reports whether a field belongs to the envelope. It ignores case, as package json does when it
// decodes.
func isEnvelopeField(name string) bool {
	return slices.ContainsFunc(envelopeFields, func(f string) bool { return strings.EqualFold(f, name) })
}

// withoutEnvelope returns the fields of a JSON object that do not belong to the envelope, in their order and without
// spaces.
func withoutEnvelope(data []byte) (json.RawMessage, error) {
	members, err := plainjson.Members(data)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	buf.WriteByte('{')
	for _, m := range members {
		if isEnvelopeField(m.Name) {
			continue
		}
		if buf.Len() > 1 {
			buf.WriteByte(',')
		}
		buf.Write(EncodeJSON(m.Name))
		buf.WriteByte(':')
		if err := json.Compact(&buf, m.Value); err != nil {
			return nil, err
		}
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}
