package a2a

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// mender brings answers of A2A 1.0 into a form that the protocol library can read. The
// library refuses a whole stream for one part of a kind that it does not know, one time
// that it cannot read, one event of a new kind. Peers are newer, older and sloppier than
// any library: what it cannot read is left out, and a note takes the place of a part that
// is left out. What the library cannot read even then, it refuses.
//
// It remembers the forms of answers that the library could read as they were, because
// reading every event twice would cost more than all else that a node does with it.
type mender struct {
	mu    sync.Mutex
	forms map[string]struct{}
}

// The bounds of what a mender remembers. An answer of another form is read twice.
const (
	maxForms = 128
	maxForm  = 2 << 10 // bytes
)

// mend returns an answer that the library can read, or the answer itself if there is
// nothing to mend, or no way to; nil for an event of an unknown kind.
func (m *mender) mend(answer []byte) []byte {
	var buf [maxForm]byte
	form := appendForm(buf[:0], answer)
	m.mu.Lock()
	_, known := m.forms[string(form)]
	m.mu.Unlock()
	if known {
		return answer
	}
	mended, readable := mend(answer)
	if readable && len(form) <= maxForm {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.forms == nil || len(m.forms) >= maxForms {
			m.forms = make(map[string]struct{})
		}
		m.forms[string(form)] = struct{}{}
	}
	return mended
}

// appendForm appends an answer without its texts. Two answers of one form differ in
// nothing that decides whether the library can read them: of texts for which that could
// be, times become a time, and the others stay.
func appendForm(form, answer []byte) []byte {
	var key []byte
	for {
		if len(form) > maxForm { // nobody remembers it
			return form
		}
		before, rest, found := bytes.Cut(answer, []byte(`"`))
		if form = append(form, before...); !found {
			return form
		}
		n := endOfText(rest)
		if n < 0 { // no JSON
			return append(form, answer...)
		}
		text := rest[:n]
		answer = rest[n+1:]
		switch isKey := bytes.HasPrefix(bytes.TrimLeft(answer, " \t\r\n"), []byte(":")); {
		case isKey:
			key = text
		case bytes.EqualFold(key, []byte("timestamp")):
			if isTime(text) {
				text = []byte("time")
			}
		case !bytes.EqualFold(key, []byte("url")) && !bytes.EqualFold(key, []byte("raw")) && !bytes.Contains(key, []byte(`\`)):
			text = nil
		}
		form = append(append(append(form, '"'), text...), '"')
	}
}

// endOfText returns where the quote is that ends a text, -1 if it does not end.
func endOfText(b []byte) int {
	for at := 0; ; at++ {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}
		at += n
		if escapes := at - len(bytes.TrimRight(b[:at], `\`)); escapes%2 == 0 {
			return at
		}
	}
}

// isTime reports whether the library can read a time.
func isTime(text []byte) bool { return new(time.Time).UnmarshalText(text) == nil }

// envelope is an answer of JSON-RPC. An answer of HTTP+JSON is what is its result here.
type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// mend is mender.mend for an answer whose form nobody knows. It also reports whether the
// library can read the answer as it is.
func mend(answer []byte) (mended []byte, readable bool) {
	var e envelope
	if json.Unmarshal(answer, &e) != nil {
		return answer, false
	}
	payload := answer
	if e.JSONRPC != "" {
		if payload = e.Result; payload == nil { // it is an error
			return answer, false
		}
	}
	mended, readable = mendPayload(payload)
	switch {
	case mended == nil || e.JSONRPC == "":
		return mended, readable
	case readable || bytes.Equal(mended, payload):
		return answer, readable
	}
	e.Result = mended
	if whole, err := json.Marshal(e); err == nil {
		return whole, false
	}
	return answer, false
}

var eventKinds = []string{"task", "message", "statusUpdate", "artifactUpdate"}

// mendPayload does the same for an event, or a task alone.
func mendPayload(payload []byte) (mended []byte, readable bool) {
	var top map[string]json.RawMessage
	if json.Unmarshal(payload, &top) != nil || top["kind"] != nil { // which protocol 0.3 has
		return payload, false
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
				return nil, false
			}
		}
		return payload, false
	case !isEvent: // another answer, in which nothing needs mending
		return payload, false
	}
	if json.Unmarshal(payload, target) == nil {
		return payload, true
	}
	var object map[string]any
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	if dec.Decode(&object) != nil {
		return payload, false
	}
	if isTask {
		mendTask(object)
	} else if !mendEvent(object) {
		return nil, false
	}
	mended, err := json.Marshal(object)
	if err != nil || json.Unmarshal(mended, target) != nil {
		return payload, false
	}
	return mended, false
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
	keep(s, func(v any) bool { return isText(v) && isTime([]byte(v.(string))) }, "timestamp")
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
