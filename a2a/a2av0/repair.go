package a2av0

import (
	"encoding/json"
	"slices"
	"time"

	old "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/v2/a2apb/v0/pbjson"

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// repair rewrites an answer of JSON-RPC so that the SDK can parse it. The SDK rejects a whole answer for one part or time
// that it cannot parse. It returns any other answer unchanged, and nil for an event of an unknown kind.
func repair(data []byte) []byte { return sdkjson.MendResponse(data, repairResult) }

func repairResult(result []byte) []byte {
	if _, err := old.UnmarshalEventJSON(result); err == nil { // most answers are valid
		return result
	}
	var event struct{ Kind string }
	_ = json.Unmarshal(result, &event)
	if event.Kind != "" && !slices.Contains([]string{"task", "message", "status-update", "artifact-update"}, event.Kind) {
		return nil
	}
	var v any
	if plainjson.Unmarshal(result, &v) == nil && dropUnreadable(v) {
		result, _ = json.Marshal(v)
	}
	return result
}

// repairREST rewrites an answer of HTTP+JSON so that the SDK can parse it.
func repairREST(data []byte) []byte {
	return sdkjson.MendAnswer(data, sdkjson.Of[pbjson.StreamResponse](), sdkjson.Of[pbjson.Task]())
}

// dropUnreadable drops what the SDK cannot parse from all messages, artifacts and states of a result: parts of unknown kinds
// or without content, and times without a zone, for example. It reports whether it dropped any.
func dropUnreadable(v any) (dropped bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			dropped = dropUnreadable(e) || dropped
		}
	case map[string]any:
		for name, e := range v {
			list, isList := e.([]any)
			text, isText := e.(string)
			switch {
			case name == "parts" && isList:
				known := slices.DeleteFunc(slices.Clone(list), func(part any) bool {
					data, err := json.Marshal([]any{part})
					return err != nil || json.Unmarshal(data, new(old.ContentParts)) != nil
				})
				v[name], dropped = known, dropped || len(known) < len(list)
			case name == "timestamp" && isText && new(time.Time).UnmarshalText([]byte(text)) != nil:
				delete(v, name)
				dropped = true
			case name != "metadata" && name != "data": // free-form fields, not ours to change
				dropped = dropUnreadable(e) || dropped
			}
		}
	}
	return dropped
}
