package a2av0

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// repair rewrites a JSON-RPC answer so that the SDK can parse it. The SDK expects error data in a form of its own,
// although 0.3 allows any, and ids as strings, and rejects a whole answer for one part of an unknown kind. It returns
// any other answer unchanged.
func repair(data []byte) []byte {
	var answer map[string]json.RawMessage
	if json.Unmarshal(data, &answer) != nil {
		return data
	}
	changed := false
	if id := bytes.TrimSpace(answer["id"]); len(id) > 0 && id[0] != '"' {
		answer["id"], changed = json.RawMessage(`""`), true
	}
	var failure map[string]json.RawMessage
	if raw, ok := answer["error"]; ok && json.Unmarshal(raw, &failure) == nil && failure["data"] != nil {
		delete(failure, "data")
		answer["error"], _ = json.Marshal(failure)
		changed = true
	}
	var result any
	if plainjson.Unmarshal(answer["result"], &result) == nil && dropUnknownParts(result) {
		answer["result"], _ = json.Marshal(result)
		changed = true
	}
	if !changed {
		return data
	}
	data, _ = json.Marshal(answer) // raw messages that were valid before
	return data
}

// dropUnknownParts drops parts of unknown kinds from all messages and artifacts of a result. It reports whether it
// dropped any.
func dropUnknownParts(v any) (dropped bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			dropped = dropUnknownParts(e) || dropped
		}
	case map[string]any:
		for name, e := range v {
			list, ok := e.([]any)
			if name != "parts" || !ok {
				if name != "metadata" && name != "data" { // free-form fields, not ours to change
					dropped = dropUnknownParts(e) || dropped
				}
				continue
			}
			known := slices.DeleteFunc(slices.Clone(list), func(part any) bool {
				m, _ := part.(map[string]any)
				return m["kind"] != "text" && m["kind"] != "data" && m["kind"] != "file"
			})
			v[name], dropped = known, dropped || len(known) < len(list)
		}
	}
	return dropped
}
