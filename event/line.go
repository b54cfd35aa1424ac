package event

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// A line is the short form of an event for databases. It has nine fields, each followed by
// a space, and the payload's JSON object:
//
//	type id turnId runId scope parentId agent path time {"content":"Hello"}
//
// The agent is empty if it is the last name of the path, as in most events. The time is in nanoseconds
// since 1970. A line does not contain the seq, because databases have a column for it. An event that this
// form cannot represent exactly, such as one with a space in its id or with an unknown type, is stored as
// its whole JSON.
const lineFields = 9

// Line returns the event in the form for databases, which [Decoder.DecodeLine] reads. It contains what MarshalJSON
// writes, except the seq, and returns the same errors.
func (e *Event) Line() (string, error) {
	payload, err := e.payloadJSON()
	if err != nil {
		return "", err
	}
	if fields, ok := e.fieldsOfLine(); ok {
		return strings.Join(append(fields[:], string(payload)), " "), nil
	}
	whole, err := e.whole(payload)
	return string(whole), err
}

// fieldsOfLine returns the fields of a line. ok is false if a line cannot represent the event.
func (e *Event) fieldsOfLine() (fields [lineFields]string, ok bool) {
	agent := e.Agent
	if last := lastName(e.Path); agent == last {
		agent = ""
	} else if agent == "" {
		return fields, false
	}
	at := ""
	if !e.Time.IsZero() {
		if y := e.Time.UTC().Year(); y < 1970 || y > 2261 { // negative, or too large for an int64
			return fields, false
		}
		at = strconv.FormatInt(e.Time.UnixNano(), 10)
	}
	fields = [...]string{e.Type(), e.ID, e.TurnID, e.RunID, e.Scope, e.ParentID, agent, e.Path, at}
	for _, w := range fields {
		if !isField(w) {
			return fields, false
		}
	}
	return fields, !e.Partial && e.Attempt == 0 && New(fields[0]) != nil
}

func lastName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// isField reports whether a text can be a field of a line: a JSON string contains it without escapes, and it contains
// no space and no brace.
func isField[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '{' {
			return false
		}
	}
	return true
}

// A Decoder decodes the lines of one log. It keeps ids and names of the last event, so that the next event can share
// these strings. The zero value is ready to use. It is not safe for concurrent use.
type Decoder struct{ last Event }

// DecodeLine returns the event at a position of a log from its line or its whole JSON. Like [Decode], it never fails:
// an event that cannot be read becomes one of [TypeUnreadable]. It does not keep the line.
func (d *Decoder) DecodeLine(seq int64, line []byte) *Event {
	fields, payload, ok := cutLine(line)
	if !ok {
		return Decode(seq, line)
	}
	last := &d.last
	e := &Event{Seq: seq, ID: string(fields[1]), TurnID: share(&last.TurnID, fields[2]), RunID: share(&last.RunID, fields[3]), Scope: share(&last.Scope, fields[4]),
		ParentID: string(fields[5]), Agent: share(&last.Agent, fields[6]), Path: share(&last.Path, fields[7])}
	if e.Agent == "" {
		e.Agent = lastName(e.Path)
	}
	if at := string(fields[8]); at != "" {
		nanos, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return Decode(seq, line)
		}
		e.Time = time.Unix(0, nanos).UTC()
	}
	if e.Data = New(string(fields[0])); e.Data != nil && decodePayload(payload, e.Data) == nil {
		e.Data, _ = Bound(e.Data)
		return e
	}
	e.Data = &Unknown{Type: string(fields[0])} // the type is of another version, or the line is damaged
	whole, _ := e.whole(payload)
	return Decode(seq, whole)
}

// share returns a text as a string. It returns the last string if that is equal.
func share(last *string, text []byte) string {
	if *last != string(text) {
		*last = string(text)
	}
	return *last
}

// cutLine returns the fields of a line and the JSON after them. ok is false if the bytes are not a line.
func cutLine(line []byte) (fields [lineFields][]byte, payload []byte, ok bool) {
	if len(line) == 0 || line[0] < 'a' || line[0] > 'z' {
		return fields, nil, false
	}
	for i := range fields {
		end := bytes.IndexByte(line, ' ')
		if end < 0 || !isField(line[:end]) {
			return fields, nil, false
		}
		fields[i], line = line[:end], line[end+1:]
	}
	return fields, line, len(line) > 1 && line[0] == '{'
}
