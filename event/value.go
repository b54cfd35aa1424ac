package event

import (
	"bytes"
	"encoding/json"
	"strings"
)

// ObjectInput returns a model's tool arguments as the JSON object that a
// [ToolCall] event holds. Empty arguments are {}; what is no JSON object
// becomes {"raw": arguments}. An object that is [TooDeep] is left to [Bound].
func ObjectInput(arguments string) json.RawMessage {
	object := strings.TrimSpace(arguments)
	if object == "" {
		return json.RawMessage("{}")
	}
	if raw := json.RawMessage(object); object[0] == '{' && (TooDeep(raw) || json.Valid(raw)) {
		return raw
	}
	return rawObject(arguments)
}

// EncodeJSON encodes v without HTML escapes. A value that has no JSON form
// becomes a string that says so, so that what happened is never lost. It may be
// [TooDeep] if v is.
func EncodeJSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok && TooDeep(raw) {
		return raw // which Bound makes a string of; package json would refuse it
	}
	out, err := Marshal(v)
	if err != nil {
		return EncodeJSON("value without a JSON form: " + err.Error())
	}
	return out
}

// Marshal is json.Marshal without HTML escapes, so that raw JSON in v stays as it is.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// OutputText returns a tool's output as the text a model reads: a JSON string's
// content, any other value as its JSON.
func OutputText(output json.RawMessage) string {
	var text string
	if len(output) > 0 && output[0] == '"' && json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}

// DecodeValue returns a value of the state, from its JSON. A number is a float64, or a
// json.Number if a float64 would change its digits. What cannot be read, what has a number
// that Go has no room for, and what is [TooDeep], is a string of its text.
func DecodeValue(data []byte) any {
	var value any
	var large bool
	if !TooDeep(data) && decodeValues(data, &value) == nil {
		if value = plainNumbers(value, &large); !large {
			return value
		}
	}
	return clip(string(data), len(data))
}

// decodeValues reads JSON as json.Unmarshal does, but where v leaves the type open a
// number is a json.Number, which plainNumbers has to see.
func decodeValues(data []byte, v any) error {
	if !json.Valid(data) {
		return json.Unmarshal(data, v) // which says what is wrong
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}
