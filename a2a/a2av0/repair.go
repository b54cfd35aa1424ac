package a2av0

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/agentarbor/arbor/a2a"
)

// repair brings answers of JSON-RPC into the form that the library reads. It takes the data of
// errors for a list of its own, where 0.3 allows anything, ids for text, and refuses a whole
// answer for one part of a kind that it does not know.
type repair struct{ base http.RoundTripper }

func (t *repair) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	// A remote agent's client makes events of a plain answer to such a request, so that the
	// answer's own type does not count.
	if strings.Contains(req.Header.Get("Accept"), "text/event-stream") {
		resp.Body = &eventLines{body: resp.Body, lines: bufio.NewReader(resp.Body)}
		return resp, nil
	}
	// The body's limit in bytes is in the transport below.
	data, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err != nil {
		return nil, err
	}
	if err := checkValues(data); err != nil {
		return nil, err
	}
	data = repaired(data)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return resp, nil
}

// maxValues bounds the objects and lists of one answer, or one event, as in version 1.0:
// they are two bytes each as they are sent, and a hundred and more once they are read.
const maxValues = 1 << 18

func checkValues(data []byte) error {
	if len(data) > maxValues && bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > maxValues {
		return &a2a.Error{Code: a2a.CodeTooLarge, Message: fmt.Sprintf("the response is longer than the limit of %d objects and lists", maxValues)}
	}
	return nil
}

// eventLines repairs the data lines of a stream of events.
type eventLines struct {
	body  io.Closer
	lines *bufio.Reader
	rest  []byte
	err   error
}

func (e *eventLines) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.rest, e.err = e.lines.ReadBytes('\n')
		if err := checkValues(e.rest); err != nil {
			e.rest, e.err = nil, err
			return 0, err
		}
		if data, ok := bytes.CutPrefix(bytes.TrimRight(e.rest, "\r\n"), []byte("data:")); ok {
			if fixed := repaired(data); !bytes.Equal(fixed, data) {
				e.rest = append(append([]byte("data: "), fixed...), '\n')
			}
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *eventLines) Close() error { return e.body.Close() }

// repaired returns one answer of JSON-RPC in the library's form. What is no such answer is
// returned as it is, and what needs no repair byte for byte.
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
// looks at every event, and may be wrong where the word stands in somebody's data.
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
