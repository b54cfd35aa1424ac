package a2a

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// isTime reports whether the library can read a time.
func isTime(text string) bool { return new(time.Time).UnmarshalText([]byte(text)) == nil }

// envelope is an answer of JSON-RPC. An answer of HTTP+JSON is what is its result here.
type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// mend brings an answer of A2A 1.0 into a form that the SDK can read. The SDK refuses a whole
// stream for one part of a kind that it does not know, one time that it cannot read, one event of
// a new kind. Peers are newer, older and sloppier than the SDK: mend leaves out what it cannot
// read, and a note takes the place of a part that is left out. It returns the answer itself if it
// needs no mending or cannot be mended, and nil for an event of an unknown kind.
func mend(answer []byte) []byte {
	var e envelope
	if json.Unmarshal(answer, &e) != nil {
		return answer
	}
	if e.JSONRPC == "" {
		return mendPayload(answer)
	}
	if e.Result == nil { // it is an error
		return answer
	}
	mended := mendPayload(e.Result)
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

var eventKinds = []string{"task", "message", "statusUpdate", "artifactUpdate"}

// mendPayload mends an event, or a task alone.
func mendPayload(payload []byte) []byte {
	if json.Unmarshal(payload, new(sdk.StreamResponse)) == nil { // as most are
		return payload
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(payload, &top) != nil || top["kind"] != nil { // which protocol 0.3 has
		return payload
	}
	isEvent := slices.ContainsFunc(eventKinds, func(kind string) bool { return top[kind] != nil })
	isTask := !isEvent && top["id"] != nil && top["status"] != nil
	var target any = new(sdk.StreamResponse)
	switch {
	case isTask:
		target = new(sdk.Task)
	case !isEvent && len(top) == 1:
		// An event of a new kind has one field, which holds an object and is no error.
		for name, value := range top {
			if name != "error" && bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
				return nil
			}
		}
		return payload
	case !isEvent: // another answer, in which nothing needs mending
		return payload
	}
	if json.Unmarshal(payload, target) == nil {
		return payload
	}
	var object map[string]any
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	if dec.Decode(&object) != nil {
		return payload
	}
	if isTask {
		mendTask(object)
	} else if !mendEvent(object) {
		return nil
	}
	mended, err := json.Marshal(object)
	if err != nil || json.Unmarshal(mended, target) != nil {
		return payload
	}
	return mended
}

// mendEvent mends an event, which is to be of exactly one kind. It reports whether it is
// of any.
func mendEvent(event map[string]any) bool {
	taken := false
	for _, kind := range eventKinds {
		value, isObject := event[kind].(map[string]any)
		if !isObject || taken {
			delete(event, kind)
			continue
		}
		taken = true
		switch kind {
		case "task":
			mendTask(value)
		case "message":
			mendMessage(value)
		case "statusUpdate":
			keep(value, isText, "taskId", "contextId")
			keep(value, isMap, "metadata")
			mendStatus(value)
		case "artifactUpdate":
			keep(value, isText, "taskId", "contextId")
			keep(value, isMap, "metadata", "artifact")
			keep(value, isBool, "append", "lastChunk")
			if artifact, ok := value["artifact"].(map[string]any); ok {
				mendArtifact(artifact)
			}
		}
	}
	return taken
}

func isText(v any) bool { _, ok := v.(string); return ok }
func isBool(v any) bool { _, ok := v.(bool); return ok }
func isMap(v any) bool  { _, ok := v.(map[string]any); return ok }
func isTexts(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(v any) bool { return !isText(v) })
}

// keep drops those of the fields that are not what they should be.
func keep(object map[string]any, is func(any) bool, names ...string) {
	for _, name := range names {
		if v, there := object[name]; there && !is(v) {
			delete(object, name)
		}
	}
}

// objects returns the objects of a list, and drops the rest of it.
func objects(in map[string]any, name string) []map[string]any {
	list, _ := in[name].([]any)
	var found []map[string]any
	left := make([]any, 0, len(list))
	for _, v := range list {
		if o, ok := v.(map[string]any); ok {
			found, left = append(found, o), append(left, o)
		}
	}
	if _, there := in[name]; there {
		in[name] = left
	}
	return found
}

func mendTask(t map[string]any) {
	keep(t, isText, "id", "contextId")
	keep(t, isMap, "metadata")
	mendStatus(t)
	for _, a := range objects(t, "artifacts") {
		mendArtifact(a)
	}
	for _, m := range objects(t, "history") {
		mendMessage(m)
	}
}

func mendStatus(in map[string]any) {
	keep(in, isMap, "status")
	s, ok := in["status"].(map[string]any)
	if !ok {
		return
	}
	keep(s, isText, "state")
	keep(s, isMap, "message")
	keep(s, func(v any) bool { return isText(v) && isTime(v.(string)) }, "timestamp")
	if m, ok := s["message"].(map[string]any); ok {
		mendMessage(m)
	}
}

func mendMessage(m map[string]any) {
	keep(m, isText, "messageId", "contextId", "taskId", "role")
	keep(m, isTexts, "extensions", "referenceTaskIds")
	keep(m, isMap, "metadata")
	mendParts(m)
}

func mendArtifact(a map[string]any) {
	keep(a, isText, "artifactId", "name", "description")
	keep(a, isTexts, "extensions")
	keep(a, isMap, "metadata")
	mendParts(a)
}

// mendParts leaves each part with the content that is understood, and puts a text in
// the place of a part that has none.
func mendParts(in map[string]any) {
	for _, p := range objects(in, "parts") {
		keep(p, isText, "text", "raw", "url", "filename", "mediaType")
		keep(p, isMap, "metadata")
		keep(p, func(v any) bool { return v != "" }, "url")
		keep(p, func(v any) bool { _, err := base64.StdEncoding.DecodeString(v.(string)); return err == nil }, "raw")
		if p["data"] == nil {
			delete(p, "data")
		}
		taken := false
		for _, kind := range []string{"text", "data", "url", "raw"} {
			if _, there := p[kind]; there && taken {
				delete(p, kind)
			} else if there {
				taken = true
			}
		}
		if !taken {
			text := "[part of an unknown kind"
			for _, name := range []string{"filename", "mediaType"} {
				if s, _ := p[name].(string); s != "" {
					text += " " + clip(s, 100)
				}
			}
			clear(p)
			p["text"] = text + "]"
		}
	}
}
