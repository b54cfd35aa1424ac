package event

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Canonical returns a payload in the form in which a store returns it, so that models and tools read the same from a
// cached session and from a loaded one: raw JSON without spaces, valid UTF-8, and a state that contains only JSON's
// types. Canonical does not change the given payload, because an agent may yield one value several times. It returns
// a payload that has no JSON form unchanged; a store refuses it. It also returns a user's message unchanged, because
// that was checked when its turn started.
func Canonical(data Data) Data {
	v := reflect.ValueOf(data)
	if data == nil || v.IsNil() {
		return data
	}
	switch d := data.(type) {
	case *User:
		return d
	case *State: // values without a JSON form become strings
		delta := make(map[string]any, len(d.Delta))
		for key, value := range d.Delta {
			delta[ValidText(key)] = DecodeValue(EncodeJSON(value))
		}
		return &State{Delta: delta}
	}
	if isCanonical(v.Elem()) {
		return data
	}
	valid := reflect.New(v.Type().Elem())
	valid.Elem().Set(v.Elem())
	for i := range valid.Elem().NumField() {
		if field := valid.Elem().Field(i); field.Kind() == reflect.String {
			field.SetString(ValidText(field.String())) // the same form as in the deltas of a text
		}
	}
	var back Event
	if b, err := (&Event{Data: valid.Interface().(Data)}).MarshalJSON(); err != nil || back.UnmarshalJSON(b) != nil {
		return data
	}
	return back.Data
}

// isCanonical reports whether a store returns the payload unchanged. It may return false for a canonical payload with
// fields of other types than strings, numbers, booleans, string slices and raw JSON.
func isCanonical(payload reflect.Value) bool {
	for i := range payload.NumField() {
		field := payload.Field(i)
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			field = field.Elem()
		}
		ok := true
		switch v := field.Addr().Interface().(type) {
		case *json.RawMessage:
			ok = len(*v) > 0 && isCompact(*v) || *v == nil && omits(payload, i)
		case *[]string:
			ok = (len(*v) > 0 || *v == nil) && utf8.ValidString(strings.Join(*v, ""))
		default:
			if field.Kind() == reflect.String {
				ok = utf8.ValidString(field.String())
			} else if !field.CanInt() && !field.CanFloat() && field.Kind() != reflect.Bool {
				ok = field.IsZero()
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// omits reports whether the JSON leaves out a field if it is empty.
func omits(payload reflect.Value, i int) bool {
	return strings.HasSuffix(payload.Type().Field(i).Tag.Get("json"), ",omitempty")
}

// ValidText returns a text as a store keeps it: each run of invalid UTF-8 becomes U+FFFD.
func ValidText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// isCompact reports whether raw JSON is valid UTF-8 without spaces outside strings. It does not check that the bytes
// are JSON.
func isCompact(raw json.RawMessage) bool {
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			return false
		}
	}
	return utf8.Valid(raw)
}

// CompactJSON returns JSON as a store keeps it: valid UTF-8 without spaces outside strings. It returns bytes that are
// not JSON unchanged; a store refuses them.
func CompactJSON(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if isCompact(raw) || json.Compact(&b, bytes.ToValidUTF8(raw, []byte("\uFFFD"))) != nil {
		return raw
	}
	return b.Bytes()
}

// Comparable returns a copy of a payload for comparing two logs of the same turn. id replaces the ids of the calls,
// questions and handoffs that the payload names. What is measured, and the ids of discarded blocks, are left out.
func Comparable(data Data, id func(string) string) Data {
	v := reflect.ValueOf(data)
	if data == nil || v.IsNil() {
		return data
	}
	same := reflect.New(v.Type().Elem())
	same.Elem().Set(v.Elem())
	for _, name := range []string{"ToolCallID", "RelayID", "HandoffID"} {
		if field := same.Elem().FieldByName(name); field.IsValid() {
			field.SetString(id(field.String()))
		}
	}
	switch d := same.Interface().(type) {
	case *Route:
		d.LatencyMs = 0
	case *Discard:
		d.IDs = nil
	}
	return same.Interface().(Data)
}
