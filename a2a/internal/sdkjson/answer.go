package sdkjson

import (
	"bytes"
	"encoding/json"
	"slices"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// MendAnswer rewrites an answer with an event or a task so that the SDK can parse it. The SDK rejects a whole stream for
// one part of an unknown kind, one invalid time or one event of a new kind. MendAnswer omits what the SDK cannot parse,
// because peers may be newer, older or less strict than it, and replaces an unknown part by a note. It returns its
// argument if nothing needs to change or the answer cannot be mended, and nil for an event of an unknown kind.
func MendAnswer(answer []byte, event, task *Shape) []byte {
	return MendResponse(answer, func(payload []byte) []byte { return mendPayload(payload, event, task) })
}

// response is a response of JSON-RPC. In HTTP+JSON the whole body is what Result is here.
type response struct {
	Error   json.RawMessage `json:"error,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	JSONRPC json.RawMessage `json:"jsonrpc,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// MendResponse rewrites a response of JSON-RPC so that the SDK can parse it: with an id that is a string, without error
// data in a form that the SDK does not know, and with the result that mend returns. If mend returns nil, so does
// MendResponse.
func MendResponse(data []byte, mend func(result []byte) []byte) []byte {
	var r response
	if json.Unmarshal(data, &r) != nil {
		return data
	}
	if r.JSONRPC == nil && r.Result == nil {
		return mend(data)
	}
	changed := false
	if len(r.ID) > 0 && r.ID[0] != '"' {
		r.ID, changed = json.RawMessage(`""`), true
	}
	if r.Error != nil {
		var failure map[string]json.RawMessage
		if json.Unmarshal(r.Error, &failure) == nil && failure["data"] != nil && json.Unmarshal(failure["data"], new([]*errordetails.Typed)) != nil {
			delete(failure, "data")
			r.Error, _ = json.Marshal(failure) // raw messages that were valid before
			changed = true
		}
	}
	if r.Result != nil {
		mended := mend(r.Result)
		if mended == nil {
			return nil
		}
		changed = changed || !bytes.Equal(mended, r.Result)
		r.Result = mended
	}
	if !changed {
		return data
	}
	data, _ = json.Marshal(r) // JSON, all of it
	return data
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
