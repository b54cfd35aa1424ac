package event

import (
	"encoding/json"
	"strings"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// ObjectInput returns a model's tool arguments as the JSON object of a [ToolCall] event. Empty arguments become {}.
// Arguments that are not a JSON object become {"raw": arguments}. ObjectInput does not change an object that is
// [TooDeep]; call [Bound] for it.
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

// EncodeJSON encodes v without HTML escapes. A value that has no JSON form becomes a string with the error, so that
// an event that contains it can still be stored. The result may be [TooDeep] if v is.
func EncodeJSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok && TooDeep(raw) {
		return raw // package json would refuse it; Bound turns it into a string
	}
	out, err := Marshal(v)
	if err != nil {
		return EncodeJSON("value without a JSON form: " + err.Error())
	}
	return out
}

// Marshal is json.Marshal without HTML escapes, so that raw JSON in v stays unchanged.
func Marshal(v any) ([]byte, error) { return plainjson.Marshal(v) }

// OutputText returns a tool's output as the text that a model reads: the content of a JSON string, or the JSON of any
// other value.
func OutputText(output json.RawMessage) string {
	var text string
	if len(output) > 0 && output[0] == '"' && json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}

// DecodeValue returns a value of the state from its JSON. A number becomes a float64, or a json.Number if a float64
// would change its digits. JSON that cannot be read, that contains a number which no float64 can represent, or that
// is [TooDeep], becomes a string with its text.
func DecodeValue(data []byte) any {
	var value any
	var large bool
	if !TooDeep(data) && plainjson.Unmarshal(data, &value) == nil {
		if value = plainNumbers(value, &large); !large {
			return value
		}
	}
	return clip(string(data), len(data))
}
