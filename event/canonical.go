package event

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"
)

// Canonical returns a payload as it comes back from its JSON form, so that a
// session that is warm and one that is read from a store show models and tools
// the same: raw JSON without spaces, text that is valid UTF-8, state of JSON's
// own types. The payload given is not changed, because an agent may yield one
// value many times. One that has no JSON form is returned as it is.
func Canonical(data Data) Data {
	if d, ok := data.(interface{ canonical() (Data, bool) }); ok {
		if done, ok := d.canonical(); ok {
			return done
		}
	}
	return readBack(data)
}

// readBack returns a payload of a type that is rare as a store would give it back. One
// that has no JSON form stays as it is; the store will refuse it.
func readBack(data Data) Data {
	var back Event
	if b, err := (&Event{Data: data}).MarshalJSON(); err != nil || back.UnmarshalJSON(b) != nil {
		return data
	}
	return back.Data
}

// ValidText returns a text as it is stored: what is no UTF-8 becomes U+FFFD.
func ValidText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func validTexts(texts []string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}

// isCompact reports whether raw JSON is valid UTF-8 and free of spaces outside
// strings.
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

// CompactJSON returns JSON as it is stored: without spaces outside strings, and valid UTF-8.
// What is no JSON is returned as it is; a store will refuse it.
func CompactJSON(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if isCompact(raw) || json.Compact(&b, bytes.ToValidUTF8(raw, []byte("\uFFFD"))) != nil {
		return raw
	}
	return b.Bytes()
}

func jsonValue(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		return ValidText(v)
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	return DecodeValue(EncodeJSON(v))
}
