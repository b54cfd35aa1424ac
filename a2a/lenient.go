package a2a

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// The protocol library refuses a whole stream for one part of a kind that it does not
// know, one time that it cannot read, one event of a new kind. Peers are newer, older
// and sloppier than any library: what it cannot read is left out, and a part that is
// left out is told of. What is still not readable then, the library refuses.

// lenient has the body of a response to a call of the protocol read so. What other
// versions of the protocol have is of other kinds: it is bounded, and left as it is.
func lenient(req *http.Request, resp *http.Response) error {
	version := req.Header.Get(sdk.SvcParamVersion)
	if version == "" {
		return nil
	}
	foreign := line(version) != line(string(sdk.Version))
	switch typ := resp.Header.Get("Content-Type"); {
	case strings.HasPrefix(typ, "text/event-stream"):
		resp.Body = &mendedStream{body: resp.Body, from: bufio.NewReader(resp.Body), foreign: foreign}
		resp.ContentLength = -1
	case isJSON(resp.Header):
		data, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return err
		}
		if err := checkValues(data); err != nil {
			return err
		}
		if !foreign && !atAGlance(data) {
			if mended, ok := mend(data); ok && mended != nil {
				data = mended
			}
		}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	}
	return nil
}

// maxValues bounds the objects and lists of one answer, or one event: two bytes each as
// they are sent, and a hundred and more once they are read.
const maxValues = 1 << 18

// checkValues refuses what would take up far more memory than its length says. Braces
// within texts count too; no text comes near the bound.
func checkValues(data []byte) error {
	if len(data) > maxValues && bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > maxValues {
		return fmt.Errorf("%w of %d objects and lists", errTooLarge, maxValues)
	}
	return nil
}

// mendedStream is a stream of server-sent events whose events are mended. It holds one
// event at a time; what it reads from is bounded.
type mendedStream struct {
	body    io.ReadCloser
	from    *bufio.Reader
	foreign bool // of another version of the protocol
	line    []byte
	data    []byte // of the event that is being read
	out     bytes.Buffer
	err     error
}

func (s *mendedStream) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	return s.out.Read(p)
}

func (s *mendedStream) Close() error { return s.body.Close() }

// next reads a line.
func (s *mendedStream) next() {
	s.line = s.line[:0]
	for {
		part, err := s.from.ReadSlice('\n')
		s.line = append(s.line, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		s.err = err
		break
	}
	line := bytes.TrimRight(s.line, "\r\n")
	switch rest, isData := bytes.CutPrefix(line, []byte("data:")); {
	case isData:
		if s.data != nil {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, bytes.TrimPrefix(rest, []byte(" "))...)
		if s.data == nil {
			s.data = []byte{}
		}
	case len(line) > 0:
		s.out.Write(s.line)
	}
	if s.data == nil || s.err == nil && (len(line) > 0 || len(s.line) == 0) {
		return
	}
	if s.err != nil && s.err != io.EOF { // the event is not whole
		return
	}
	data, known := s.data, true
	if err := checkValues(data); err != nil {
		s.data, s.err = nil, err
		return
	}
	if !s.foreign && !atAGlance(data) {
		if mended, ok := mend(data); ok {
			data, known = mended, mended != nil
		}
	}
	if known {
		for part := range bytes.SplitSeq(data, []byte("\n")) {
			s.out.WriteString("data: ")
			s.out.Write(part)
			s.out.WriteByte('\n')
		}
		s.out.WriteByte('\n')
	} else {
		s.out.WriteString(": an event of an unknown kind\n\n")
	}
	s.data = nil
}

// envelope is what answers of the bindings begin with: in JSON-RPC the result stands
// beside other fields, in HTTP+JSON it is the whole.
type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// mend returns an answer that the library can read, nil for an event of an unknown
// kind. It reports false if there is nothing to mend, or no way to.
func mend(data []byte) ([]byte, bool) {
	var e envelope
	if json.Unmarshal(data, &e) != nil {
		return nil, false
	}
	payload := data
	if e.JSONRPC != "" {
		payload = e.Result
	}
	mended, ok := mendPayload(payload)
	switch {
	case !ok || mended == nil || e.JSONRPC == "":
		return mended, ok
	}
	e.Result = mended
	whole, err := json.Marshal(e)
	return whole, err == nil
}

var eventKinds = []string{"task", "message", "statusUpdate", "artifactUpdate"}

// mendPayload mends an event, or a task alone, if the library cannot read it.
func mendPayload(payload []byte) ([]byte, bool) {
	var top map[string]json.RawMessage
	if json.Unmarshal(payload, &top) != nil || len(top) == 0 {
		return nil, false
	}
	if top["kind"] != nil { // as protocol 0.3 has it, which others read
		return nil, false
	}
	var target any = new(sdk.StreamResponse)
	isTask := top["id"] != nil && top["status"] != nil
	isEvent := slices.ContainsFunc(eventKinds, func(kind string) bool { return top[kind] != nil })
	switch {
	case isTask && !isEvent:
		target = new(sdk.Task)
	case !isEvent:
		// Not one of the answers that matter here, or an event of a new kind: with one
		// field, which holds an object, and is no error.
		if len(top) == 1 {
			for name, value := range top {
				if name != "error" && bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
					return nil, true
				}
			}
		}
		return nil, false
	}
	if json.Unmarshal(payload, target) == nil {
		return nil, false
	}
	var object map[string]any
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	if dec.Decode(&object) != nil {
		return nil, false
	}
	if isTask && !isEvent {
		mendTask(object)
	} else {
		taken := false
		for _, kind := range eventKinds { // exactly one is to be there
			value, isObject := object[kind].(map[string]any)
			if !isObject || taken {
				delete(object, kind)
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
		if !taken {
			return nil, true
		}
	}
	mended, err := json.Marshal(object)
	if err != nil || json.Unmarshal(mended, target) != nil {
		return nil, false
	}
	return mended, true
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
	keep(s, func(v any) bool {
		text, _ := v.(string)
		_, err := time.Parse(time.RFC3339, text)
		return err == nil
	}, "timestamp")
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
