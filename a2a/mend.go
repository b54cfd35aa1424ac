package a2a

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/visible"
)

// isTime reports whether the SDK can parse a time.
func isTime(text string) bool { return new(time.Time).UnmarshalText([]byte(text)) == nil }

// envelope is a response of JSON-RPC. In HTTP+JSON the whole body is what Result is here.
type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// mend rewrites an answer of A2A 1.0 so that the SDK can parse it. The SDK rejects a whole stream for one part of an
// unknown kind, one invalid time or one event of a new kind. mend omits what the SDK cannot parse, because peers may be
// newer, older or less strict than it, and replaces an unknown part by a note. It returns its argument if nothing needs
// to change or the answer cannot be mended, and nil for an event of an unknown kind.
func mend(answer []byte) []byte {
	var e envelope
	if json.Unmarshal(answer, &e) != nil {
		return answer
	}
	if e.JSONRPC == "" {
		return mendPayload(answer)
	}
	if e.Result == nil { // an error response
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

// eventKinds are the kinds of events and their types.
var eventKinds = []struct {
	name string
	form reflect.Type
}{
	{"task", reflect.TypeFor[sdk.Task]()},
	{"message", reflect.TypeFor[sdk.Message]()},
	{"statusUpdate", reflect.TypeFor[sdk.TaskStatusUpdateEvent]()},
	{"artifactUpdate", reflect.TypeFor[sdk.TaskArtifactUpdateEvent]()},
}

// mendPayload mends an event or a task.
func mendPayload(payload []byte) []byte {
	if json.Unmarshal(payload, new(sdk.StreamResponse)) == nil { // most payloads are valid
		return payload
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(payload, &top) != nil || top["kind"] != nil { // A2A 0.3 has a kind
		return payload
	}
	isEvent := false
	for _, kind := range eventKinds {
		isEvent = isEvent || top[kind.name] != nil
	}
	isTask := !isEvent && top["id"] != nil && top["status"] != nil
	var target any = new(sdk.StreamResponse)
	switch {
	case isTask:
		target = new(sdk.Task)
	case !isEvent && len(top) == 1:
		// An event of a new kind has one field with an object, and is not an error.
		for name, value := range top {
			if name != "error" && bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
				return nil
			}
		}
		return payload
	case !isEvent: // another answer, which needs no mending
		return payload
	}
	if json.Unmarshal(payload, target) == nil {
		return payload
	}
	var object map[string]any
	if plainjson.Unmarshal(payload, &object) != nil {
		return payload
	}
	if isTask {
		conform(object, reflect.TypeFor[sdk.Task]())
	} else if !mendEvent(object) {
		return nil
	}
	mended, err := json.Marshal(object)
	if err != nil || json.Unmarshal(mended, target) != nil {
		return payload
	}
	return mended
}

// mendEvent reduces an event to exactly one known kind and mends that. It reports whether the event has a known kind.
func mendEvent(event map[string]any) bool {
	found := false
	for _, kind := range eventKinds {
		if value, isObject := event[kind.name].(map[string]any); isObject && !found {
			found = true
			conform(value, kind.form)
		} else {
			delete(event, kind.name)
		}
	}
	return found
}

// conform returns a value in a form that can be decoded into a type of the SDK: without fields of the wrong type, and
// without list members that are not objects where objects are expected. It reports whether a usable value remains.
func conform(v any, t reflect.Type) (fitting any, ok bool) {
	switch t.Kind() {
	case reflect.Pointer:
		return conform(v, t.Elem())
	case reflect.String:
		_, ok = v.(string)
	case reflect.Bool:
		_, ok = v.(bool)
	case reflect.Map:
		_, ok = v.(map[string]any)
	case reflect.Slice:
		return conformList(v, t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			text, isText := v.(string)
			return v, isText && isTime(text)
		}
		var object map[string]any
		if object, ok = v.(map[string]any); !ok {
			break
		}
		if t == reflect.TypeFor[sdk.Part]() {
			mendPart(object)
			break
		}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			member, exists := object[name]
			if !exists {
				continue
			}
			if object[name], ok = conform(member, f.Type); !ok {
				delete(object, name)
			}
		}
		ok = true
	}
	return v, ok
}

// conformList removes the members of a list that do not fit. A list of strings must contain only strings. If objects are
// expected and the value is not a list, the result is an empty list.
func conformList(v any, elem reflect.Type) (any, bool) {
	list, ok := v.([]any)
	left := make([]any, 0, len(list))
	for _, member := range list {
		if member, fits := conform(member, elem); fits {
			left = append(left, member)
		}
	}
	return left, elem.Kind() != reflect.String || ok && len(left) == len(list)
}

// mendPart reduces a part to one known content. If it has none, a note replaces it.
func mendPart(p map[string]any) {
	for _, name := range []string{"text", "raw", "url", "filename", "mediaType"} {
		text, isText := p[name].(string)
		_, err := base64.StdEncoding.DecodeString(text)
		if !isText || name == "url" && text == "" || name == "raw" && err != nil {
			delete(p, name)
		}
	}
	if _, isMap := p["metadata"].(map[string]any); !isMap {
		delete(p, "metadata")
	}
	if p["data"] == nil {
		delete(p, "data")
	}
	found := false
	for _, kind := range []string{"text", "data", "url", "raw"} {
		if _, exists := p[kind]; exists && found {
			delete(p, kind)
		} else if exists {
			found = true
		}
	}
	if !found {
		text := "[part of an unknown kind"
		for _, name := range []string{"filename", "mediaType"} {
			if s, _ := p[name].(string); s != "" {
				text += " " + visible.Cut(s, 100)
			}
		}
		clear(p)
		p["text"] = text + "]"
	}
}
