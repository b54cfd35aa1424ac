package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
)

// answerBody finds the events in the body of an answer in all of these forms: server-sent events, with or without
// comments, blank lines and a last line end; one JSON object per line; and one JSON object.
type answerBody struct {
	src    *meter
	client *client
	isSSE  bool // the Content-Type is text/event-stream
	in     *bufio.Reader
	begun  bool
	json   bool // the body is one JSON object
	done   bool // the body sent [DONE], or the JSON object is complete
	ended  bool

	line    []byte // a line that is longer than in's buffer
	cr      bool   // the last line ended with CR, so skip a following LF
	odd     []byte // the last data that was no part of an answer
	pending []byte // the data so far of an event with several lines
	bare    bool   // more lines of that event may lack "data:", as its first one does or as it has only a bracket
	kind    string // the name of the event so far
	name    string // that of the last event
}

// lineRoom is the size of the buffer that finds lines, in bytes. A stream keeps it while it waits, and the transport has
// a larger buffer below it.
const lineRoom = 512

func newAnswerBody(src *meter, contentType string, c *client) *answerBody {
	return &answerBody{
		src: src, client: c, in: bufio.NewReaderSize(src, lineRoom),
		isSSE: strings.HasPrefix(strings.ToLower(contentType), "text/event-stream"),
	}
}

var doneMark, byteOrderMark = []byte("[DONE]"), []byte("\ufeff")

// finish closes the body. After [DONE] it reads the few bytes that may follow, so that the connection can be reused.
func (b *answerBody) finish() {
	if b.done && !b.json {
		b.src.a.watch.shortenSilence(100 * time.Millisecond)
		_, _ = io.CopyN(io.Discard, b.in, 4096) // if this fails, the connection is not reused
	}
	_ = b.src.Close()
}

// next returns the JSON of the next event in one line, valid until the next call. It returns io.EOF at the end, with or
// without [DONE].
func (b *answerBody) next() ([]byte, error) {
	if b.ended {
		return nil, io.EOF
	}
	if !b.begun {
		b.begun = true
		if data, err := b.begin(); data != nil || err != nil {
			b.ended = true
			return data, err
		}
	}
	for !b.done {
		line, err := b.readLine()
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err == io.EOF {
			b.ended = true
			return b.last(line)
		}
		if data := b.take(line); data != nil {
			return data, nil
		}
	}
	b.ended = true
	return nil, io.EOF
}

// begin looks at the beginning of the body. It returns the whole answer if the body is one JSON object, and nil if the
// body consists of events.
func (b *answerBody) begin() ([]byte, error) {
	if bom, _ := b.in.Peek(3); string(bom) == "\ufeff" {
		_, _ = b.in.Discard(3) // they are in the buffer
	}
	var first byte
	for {
		c, err := b.in.ReadByte()
		if err == io.EOF {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			first = c
			_ = b.in.UnreadByte() // cannot fail, because the last operation was ReadByte
			break
		}
	}
	switch {
	case first == '{' || first == '[' || first == '"':
		line, err := b.readLine()
		b.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(append(bytes.Clone(line), '\n')), b.in), lineRoom)
		if err == nil && json.Valid(line) && bytes.Contains(line, []byte(`"delta"`)) {
			return nil, nil // each line is an event
		}
		return b.whole()
	case first == '<':
		return nil, b.client.htmlError(b.start())
	case !b.isSSE && first != ':' && first != 'd' && first != 'e' && first != 'i' && first != 'r':
		// No line of an event stream (data, event, id, retry, or a comment) starts like this.
		return nil, b.client.badEvent(b.start(), errors.New("it is neither JSON nor an event stream"))
	}
	return nil, nil
}

// start returns the beginning of a body that is no answer.
func (b *answerBody) start() []byte {
	text, _ := io.ReadAll(io.LimitReader(b.in, 2048)) // what came before an error says enough
	return text
}

func (b *answerBody) whole() ([]byte, error) {
	data, err := io.ReadAll(b.in)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSpace(data)
	var raw json.RawMessage
	err = json.NewDecoder(bytes.NewReader(data)).Decode(&raw)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, b.client.truncated(err, nil)
	case err != nil || data[0] == '[' && !json.Valid(data):
		return nil, b.client.badEvent(data, err)
	}
	rest := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(data[len(raw):]), []byte("data:")))
	if len(rest) > 0 && !bytes.EqualFold(rest, doneMark) { // 9router appends the end of an event stream
		return nil, b.client.badEvent(data, errors.New("unexpected data after the JSON object"))
	}
	b.json, b.done = true, true
	return oneLine(unlisted(raw)), nil
}

// oneLine replaces line ends by spaces. In JSON they can only be between tokens.
func oneLine(data []byte) []byte {
	for i, c := range data {
		if c == '\n' || c == '\r' {
			data[i] = ' '
		}
	}
	return data
}

// readLine returns the next line without its end, which is LF, CR or both. The line is valid until the next call. With
// io.EOF it returns the text after the last line end.
func (b *answerBody) readLine() ([]byte, error) {
	b.line = b.line[:0]
	for {
		_, err := b.in.Peek(1)
		seen, _ := b.in.Peek(b.in.Buffered())
		if b.cr && len(seen) > 0 && seen[0] == '\n' {
			seen = seen[1:]
			_, _ = b.in.Discard(1) // everything that is discarded here is in the buffer
		}
		b.cr = b.cr && len(seen) == 0 && err == nil
		end := bytes.IndexAny(seen, "\r\n")
		if end >= 0 {
			b.cr = seen[end] == '\r'
			_, _ = b.in.Discard(end + 1)
			if len(b.line) == 0 {
				return bytes.TrimSpace(seen[:end]), nil
			}
			return bytes.TrimSpace(append(b.line, seen[:end]...)), nil
		}
		b.line = append(b.line, seen...)
		_, _ = b.in.Discard(len(seen))
		if err != nil {
			return bytes.TrimSpace(b.line), err
		}
	}
}

// take processes one line. It returns an event if the line completes one.
func (b *answerBody) take(line []byte) []byte {
	line = bytes.TrimPrefix(line, byteOrderMark) // some servers write the mark before each event
	if len(line) == 0 {
		return b.flush()
	}
	value, named, ok := b.data(line)
	if !ok {
		return nil
	}
	switch {
	case bytes.EqualFold(value, doneMark), string(value) == `"[DONE]"`:
		b.done = true
		return b.flush()
	case len(b.pending) > 0 && isError(value):
		b.pending = b.pending[:0] // the event before it was cut off
		return b.named(value)
	case len(b.pending) > 0:
		b.pending = append(append(b.pending, ' '), value...)
		return nil
	case len(value) == 0:
		return nil
	case len(value) > 4 && bytes.EqualFold(value[:5], []byte("error")):
		b.kind = "error"
	case string(value) == "[]", value[0] != '{' && value[0] != '[' && value[0] != '<' && b.kind != "error":
		b.strange(value)
		return nil
	case json.Valid(value):
		// Almost every event is one line. Returning it before the blank line yields it sooner, and also works with
		// endpoints that send no blank lines.
		return b.named(value)
	}
	b.pending = append(b.pending[:0], value...)
	b.bare = !named || len(value) == 1
	return nil
}

// data returns the data in a line, and whether the line names it so. ok is false for a line without data.
func (b *answerBody) data(line []byte) (value []byte, named, ok bool) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	named = string(field) == "data"
	switch {
	case line[0] == ':':
		return nil, false, false // a comment that keeps the connection open
	case line[0] == '{' || line[0] == '<' || line[0] == '[' && (len(line) == 1 || line[1] == '{' || json.Valid(line) || bytes.EqualFold(line, doneMark)):
		value = line // some proxies send an error without "data:"
	case string(field) == "event":
		b.kind = string(bytes.TrimSpace(value))
		return nil, false, false
	case string(field) == "error":
		b.kind = "error" // llama.cpp has used this field name
	case !named && (len(b.pending) == 0 || !b.bare || string(field) == "id" || string(field) == "retry"):
		return nil, false, false // also fields that the standard tells clients to ignore
	case !named:
		value = line // of an object in several lines, or of a page
	}
	for value = bytes.TrimSpace(value); bytes.HasPrefix(value, []byte("data:")); value = bytes.TrimSpace(value[5:]) {
		// A proxy has wrapped lines of events in events.
	}
	if len(value) > 0 && value[0] == '"' && len(b.pending) == 0 {
		value = unlisted(value)
	}
	return value, named, true
}

// isError reports whether a line is a whole error object.
func isError(line []byte) bool {
	var f failing
	return json.Unmarshal(line, &f) == nil && f.failure(false, false) != nil
}

// strange keeps a text that is no part of an answer: it keeps the connection open, or says why there is no answer.
func (b *answerBody) strange(text []byte) { b.odd = append(b.odd[:0], text[:min(len(text), 1024)]...) }

// flush returns the event of the lines so far, or nil.
func (b *answerBody) flush() []byte {
	data := b.pending
	b.pending = b.pending[:0]
	if len(data) == 0 {
		b.kind = ""
		return nil
	}
	return b.named(data)
}

// named marks an event that only its name identifies as an error, and unpacks an error in a list.
func (b *answerBody) named(data []byte) []byte {
	kind := b.kind
	b.kind, b.name = "", kind
	if kind != "error" {
		return unlisted(data)
	}
	var has struct {
		Error json.RawMessage `json:"error"`
	}
	switch err := json.Unmarshal(data, &has); {
	case err == nil && reported(has.Error):
		return data
	case !json.Valid(data):
		data, _ = json.Marshal(string(data)) // encoding a string cannot fail
	}
	return append(append([]byte(`{"error":`), data...), '}')
}

// unlisted returns the object in the list in which Gemini's endpoint wraps its errors, or in the text to which a server has
// encoded it.
func unlisted(data []byte) []byte {
	switch data[0] {
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(data, &list) == nil && len(list) == 1 {
			return list[0]
		}
	case '"':
		var text string
		if json.Unmarshal(data, &text) == nil && isObject(text) {
			return oneLine([]byte(text))
		}
	}
	return data
}

// last handles the end of the body: a line without a line end, or an event without a blank line. It drops data that is
// neither JSON nor a web page, because it was cut off.
func (b *answerBody) last(line []byte) ([]byte, error) {
	if data := b.take(line); data != nil {
		return data, nil
	}
	if data := b.flush(); data != nil && (json.Valid(data) || isHTML(data)) {
		return data, nil
	}
	return nil, io.EOF
}
