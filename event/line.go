package event

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// A line is the short form of an event for databases. It has nine words, each followed by
// a space, and the payload's JSON object:
//
//	type id turnId runId scope parentId agent path time {"content":"Hello"}
//
// A field that is empty is an empty word. The agent is empty if it is the last name of the
// path, as it mostly is; the time is nanoseconds since 1970. The seq is not in a line, for
// a database has it beside. An event of which any of that is not exactly true, such as one
// whose id holds a space or whose type is not known, is kept as its whole JSON.
const lineWords = 9

// Line returns the event as databases keep it, for [Decoder.DecodeLine]. It holds what MarshalJSON
// writes, but for the seq, and has the same errors.
func (e *Event) Line() (string, error) {
	payload, err := e.payloadJSON()
	if err != nil {
		return "", err
	}
	if words, ok := e.lineWords(); ok {
		return strings.Join(append(words[:], string(payload)), " "), nil
	}
	whole, err := e.whole(payload)
	return string(whole), err
}

// lineWords returns the words of a line, and false if the event has none.
func (e *Event) lineWords() (words [lineWords]string, ok bool) {
	agent := e.Agent
	if last := lastName(e.Path); agent == last {
		agent = ""
	} else if agent == "" {
		return words, false
	}
	at := ""
	if !e.Time.IsZero() {
		if y := e.Time.UTC().Year(); y < 1970 || y > 2261 { // outside of what int64 holds, or below 0
			return words, false
		}
		at = strconv.FormatInt(e.Time.UnixNano(), 10)
	}
	words = [...]string{e.Type(), e.ID, e.TurnID, e.RunID, e.Scope, e.ParentID, agent, e.Path, at}
	for _, w := range words {
		if !isWord(w) {
			return words, false
		}
	}
	return words, !e.Partial && e.Attempt == 0 && New(words[0]) != nil
}

func lastName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// isWord reports whether a text can be a word of a line: it is the same inside of a JSON
// string, and what ends the words is not in it.
func isWord[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '{' {
			return false
		}
	}
	return true
}

// A Decoder reads the lines of one log. It remembers ids and names of the last event, which the next
// one often shares, so that they are one string. The zero value has seen nothing. It is not safe for
// concurrent use.
type Decoder struct{ last Event }

// DecodeLine returns the event that a database holds at a position, from its line or its
// whole JSON. It is what [Decode] returns for the JSON, and as that never fails: an event
// that cannot be read is one of [TypeUnreadable]. Nothing of the line is kept.
func (d *Decoder) DecodeLine(seq int64, line []byte) *Event {
	words, payload, ok := cutLine(line)
	if !ok {
		return Decode(seq, line)
	}
	last := &d.last
	e := &Event{Seq: seq, ID: string(words[1]), TurnID: share(&last.TurnID, words[2]), RunID: share(&last.RunID, words[3]), Scope: share(&last.Scope, words[4]),
		ParentID: string(words[5]), Agent: share(&last.Agent, words[6]), Path: share(&last.Path, words[7])}
	if e.Agent == "" {
		e.Agent = lastName(e.Path)
	}
	if at := string(words[8]); at != "" {
		nanos, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return Decode(seq, line)
		}
		e.Time = time.Unix(0, nanos).UTC()
	}
	if e.Data = New(string(words[0])); e.Data != nil && decodePayload(payload, e.Data) == nil {
		e.Data, _ = Bound(e.Data)
		return e
	}
	e.Data = &Unknown{Type: string(words[0])} // of another version, or damaged
	whole, _ := e.whole(payload)
	return Decode(seq, whole)
}

// share returns a text as a string, the last one if it is the same.
func share(last *string, text []byte) string {
	if *last != string(text) {
		*last = string(text)
	}
	return *last
}

// cutLine returns the words of a line and the JSON after them, and false if it is none.
func cutLine(line []byte) (words [lineWords][]byte, payload []byte, ok bool) {
	if len(line) == 0 || line[0] < 'a' || line[0] > 'z' {
		return words, nil, false
	}
	for i := range words {
		end := bytes.IndexByte(line, ' ')
		if end < 0 || !isWord(line[:end]) {
			return words, nil, false
		}
		words[i], line = line[:end], line[end+1:]
	}
	return words, line, len(line) > 1 && line[0] == '{'
}
