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
	whole, err := e.MarshalJSON()
	if err != nil {
		return "", err
	}
	words, ok := e.lineWords()
	if !ok {
		return string(whole), nil
	}
	var buf [512]byte
	envelope, err := e.appendEnvelope(buf[:0])
	if err != nil {
		return "", err
	}
	payload := whole[len(envelope):] // ,"content":…} or }
	if payload[0] == ',' {
		payload = payload[1:]
	}
	var line strings.Builder
	n := len(payload) + lineWords + 1
	for _, w := range words {
		n += len(w)
	}
	line.Grow(n)
	for _, w := range words {
		line.WriteString(w)
		line.WriteByte(' ')
	}
	line.WriteByte('{')
	line.Write(payload)
	return line.String(), nil
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
func isWord(s string) bool {
	for i := range len(s) {
		if !inWord(s[i]) {
			return false
		}
	}
	return true
}

func inWord(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '\\' && c != '{' }

// DecodeLine returns the event that a database holds at a position, from its line or its
// whole JSON. It is what [Decode] returns for the JSON, and as that never fails: an event
// that cannot be read is one of [TypeUnreadable]. Nothing of the line is kept.
func (d *Decoder) DecodeLine(seq int64, line []byte) *Event {
	if d.known == nil {
		d.known = newKnown()
	}
	k := d.known
	words, at, ok := cutLine(line)
	var when time.Time
	if text := words[8]; ok && text.size() > 0 {
		nanos, err := strconv.ParseInt(string(line[text.from:text.to]), 10, 64)
		when, ok = time.Unix(0, nanos).UTC(), err == nil
	}
	if !ok {
		return k.decode(seq, line)
	}
	e := k.lineEvent(line, words, at)
	if e == nil {
		return k.decode(seq, wholeOf(seq, when, line, words, at))
	}
	e.Seq, e.Time = seq, when
	return e
}

// lineEvent reads an event whose payload has the form that MarshalJSON writes, and returns
// nil if it has another one.
func (f *fields) lineEvent(data []byte, words [lineWords]span, at int) *Event {
	f.begin(data, at)
	e, payload := empty(data[words[0].from:words[0].to])
	if payload == nil || !walk(f, payload) || !f.ended() {
		return nil
	}
	e.Data = payload
	if path := words[7]; words[6].size() == 0 { // the agent is the path's last name
		words[6] = span{from: path.from + 1 + bytes.LastIndexByte(data[path.from:path.to], '/'), to: path.to}
	}
	f.put(&e.ID, words[1])
	f.putName(&e.TurnID, words[2])
	f.putName(&e.RunID, words[3])
	f.putName(&e.Scope, words[4])
	f.put(&e.ParentID, words[5])
	f.putName(&e.Agent, words[6])
	f.putName(&e.Path, words[7])
	f.strings()
	return e
}

// wholeOf returns the JSON of the event of a line, nil if it has none.
func wholeOf(seq int64, when time.Time, line []byte, words [lineWords]span, at int) []byte {
	word := func(i int) string { return string(line[words[i].from:words[i].to]) }
	e := Event{Seq: seq, ID: word(1), TurnID: word(2), RunID: word(3), Scope: word(4), ParentID: word(5), Agent: word(6), Path: word(7), Time: when, Data: &Unknown{Type: word(0)}}
	if e.Agent == "" {
		e.Agent = lastName(e.Path)
	}
	out, err := e.appendEnvelope(nil)
	switch payload := line[at:]; {
	case err != nil: // a time that no line has
		return nil
	case string(payload) == "{}":
		return append(out, '}')
	default:
		return append(append(out, ','), payload[1:]...)
	}
}

// cutLine returns the words of a line and where the JSON after them begins, and false if it is none.
func cutLine(line []byte) (words [lineWords]span, at int, ok bool) {
	if len(line) == 0 || line[0] < 'a' || line[0] > 'z' {
		return words, 0, false
	}
	n, from := 0, 0
	for i, c := range line {
		switch {
		case c == ' ' && n < lineWords:
			words[n] = span{from: from, to: i}
			n, from = n+1, i+1
		case c == '{' && n == lineWords && i == from:
			return words, i, true
		case !inWord(c):
			return words, 0, false
		}
	}
	return words, 0, false
}
