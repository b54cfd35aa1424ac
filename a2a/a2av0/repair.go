package a2av0

import (
	"bytes"
	"encoding/json"
)

// repaired returns one answer of JSON-RPC in the form that the library reads. The library takes
// the data of errors for a list of its own, where 0.3 allows anything, ids for text, and refuses
// a whole answer for one part of a kind that it does not know. What is no such answer, or needs
// no repair, is returned as it is.
func repaired(data []byte) []byte {
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
	if raw, ok := answer["result"]; ok && hasUnknownKind(raw) {
		var result any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&result) == nil {
			withoutUnknownParts(result)
			answer["result"], _ = json.Marshal(result)
			changed = true
		}
	}
	if !changed {
		return data
	}
	data, _ = json.Marshal(answer) // of raw messages that were valid before
	return data
}

// hasUnknownKind reports whether there may be a kind that is not of 0.3. It is quick, because it
// looks at every event, and may say yes where the word is in somebody's data.
func hasUnknownKind(raw []byte) bool {
	const key = `"kind"`
	for {
		i := bytes.Index(raw, []byte(key))
		if i < 0 {
			return false
		}
		raw = bytes.TrimLeft(raw[i+len(key):], " \t\r\n")
		value, ok := bytes.CutPrefix(raw, []byte(":"))
		if !ok {
			continue
		}
		value = bytes.TrimLeft(value, " \t\r\n")
		known := false
		for _, kind := range []string{`"text"`, `"data"`, `"file"`, `"task"`, `"message"`, `"status-update"`, `"artifact-update"`} {
			known = known || bytes.HasPrefix(value, []byte(kind))
		}
		if !known {
			return true
		}
	}
}

// withoutUnknownParts drops parts of unknown kinds from all messages and artifacts of a result.
func withoutUnknownParts(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			withoutUnknownParts(e)
		}
	case map[string]any:
		for name, e := range v {
			list, ok := e.([]any)
			if name != "parts" || !ok {
				if name != "metadata" && name != "data" { // which are others' to fill
					withoutUnknownParts(e)
				}
				continue
			}
			known := list[:0]
			for _, part := range list {
				m, _ := part.(map[string]any)
				switch m["kind"] {
				case "text", "data", "file":
					known = append(known, part)
				}
			}
			v[name] = known
		}
	}
}
