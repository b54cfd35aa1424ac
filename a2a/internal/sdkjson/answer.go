package sdkjson

import (
	"bytes"
	"encoding/json"
	"slices"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// envelope is a response of JSON-RPC. In HTTP+JSON the whole body is what Result is here.
type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// MendAnswer rewrites an answer with an event or a task so that the SDK can parse it. The SDK rejects a whole stream for
// one part of an unknown kind, one invalid time or one event of a new kind. MendAnswer omits what the SDK cannot parse,
// because peers may be newer, older or less strict than it, and replaces an unknown part by a note. It returns its argument
// if nothing needs to change or the answer cannot be mended, and nil for an event of an unknown kind.
func MendAnswer(answer []byte, event, task *Shape) []byte {
	var e envelope
	if json.Unmarshal(answer, &e) != nil {
		return answer
	}
	if e.JSONRPC == "" {
		return mendPayload(answer, event, task)
	}
	if e.Result == nil { // an error response
		return answer
	}
	mended := mendPayload(e.Result, event, task)
	if mended == nil {
		return nil
	}
	if bytes.Equal(mended, e.Result) {
		return answer
	}
	e.Result = mended
	if whole, err := json.Marshal(e); err == nil {
		return whole
	}
	return answer
}

// mendPayload mends an event or a task.
func mendPayload(payload []byte, event, task *Shape) []byte {
	if json.Unmarshal(payload, new(sdk.StreamResponse)) == nil { // most payloads are valid
		return payload
	}
	var top map[string]any
	if plainjson.Unmarshal(payload, &top) != nil || top["kind"] != nil { // A2A 0.3 has a kind
		return payload
	}
	isEvent := slices.ContainsFunc(EventKinds, func(kind string) bool { _, there := top[kind]; return there })
	shape := event
	switch {
	case isEvent:
	case top["id"] != nil && top["status"] != nil:
		if json.Unmarshal(payload, new(sdk.Task)) == nil {
			return payload
		}
		shape = task
	case len(top) == 1:
		// An event of a new kind has one field with an object, and is not an error.
		for name, value := range top {
			if _, isObject := value.(map[string]any); isObject && name != "error" {
				return nil
			}
		}
		return payload
	default: // another answer, which needs no mending
		return payload
	}
	mended, err := shape.Mend(top)
	if err != nil { // no known kind of event is left
		return nil
	}
	return mended
}
