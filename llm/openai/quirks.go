package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/llm"
)

// This file knows how endpoints differ from the protocol they claim to speak;
// nothing else in this package does.

// answerBody finds the events in the body of an answer, whatever its form:
// server-sent events, with or without comments, blank lines and a last line
// end, or one JSON object. It is also the io.Reader from which the library
// reads the events, one clean line each.
type answerBody struct {
	src    *meter
	client *client
	isSSE  bool // the header says so
	in     *bufio.Reader
	begun  bool
	json   bool // the body is one JSON object
	done   bool // [DONE] was seen, or the JSON object was whole
	ended  bool

	line    []byte // a line longer than in's buffer
	pending []byte // data of an event that goes over several lines
	kind    string // the event's name

	out  []byte // what the library has yet to read
	rest []byte // buffer of out
}

func newAnswerBody(src *meter, contentType string, c *client) *answerBody {
	return &answerBody{
		src: src, client: c, in: bufio.NewReader(src),
		isSSE: strings.HasPrefix(strings.ToLower(contentType), "text/event-stream"),
	}
}

var doneMark = []byte("[DONE]")

// Read gives the library lines of the only form that it reads without loss:
// "data: {…}", no comments, no blank lines (it gives up after 300 of them), and
// never `{"error":` at the front, which it takes for an error even if it is
// null.
func (b *answerBody) Read(p []byte) (int, error) {
	if len(b.out) == 0 {
		data, err := b.next()
		if err != nil {
			return 0, err
		}
		b.rest = append(b.rest[:0], "data: "...)
		if after, ok := bytes.CutPrefix(data, []byte(`{"error"`)); ok {
			b.rest, data = append(b.rest, `{ "error"`...), after
		}
		b.rest = append(append(b.rest, data...), '\n')
		b.out = b.rest
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func (b *answerBody) Close() error { return b.src.Close() }

// finish closes the body. After [DONE] it reads the few bytes that may follow,
// so that the connection can be used again.
func (b *answerBody) finish() {
	if b.done && !b.json {
		b.src.a.watch.hurry(100 * time.Millisecond)
		_, _ = io.CopyN(io.Discard, b.in, 4096) // if this fails the connection is not used again
	}
	_ = b.src.Close()
}

// next returns the JSON of the next event in one line, valid until the next
// call. At the end, [DONE] or not, the error is io.EOF.
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

// begin looks at what the body starts with. It returns the whole answer if the
// body is one JSON object, and nothing if it is made of events.
func (b *answerBody) begin() ([]byte, error) {
	if bom, _ := b.in.Peek(3); string(bom) == "\ufeff" {
		_, _ = b.in.Discard(3) // they are buffered
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
			_ = b.in.UnreadByte() // the last operation was ReadByte, so this cannot fail
			break
		}
	}
	switch {
	case first == '{' || first == '[':
		return b.whole()
	case first == '<':
		page, _ := b.in.Peek(2048)
		return nil, b.client.htmlError(page)
	case !b.isSSE && first != ':' && first != 'd' && first != 'e' && first != 'i' && first != 'r':
		// No line of an event stream (data, event, id, retry, or a comment)
		// begins like this.
		text, _ := b.in.Peek(2048)
		return nil, b.client.badEvent(text, errors.New("it is neither JSON nor an event stream"))
	}
	return nil, nil
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
		return nil, b.client.truncated(err)
	case err != nil || data[0] == '[' && !json.Valid(data):
		return nil, b.client.badEvent(data, err)
	case len(raw) < len(data):
		return nil, b.client.badEvent(data, errors.New("it goes on after its JSON object"))
	}
	b.json, b.done = true, true
	if data[0] == '[' {
		// Gemini's endpoint wraps errors in a list.
		var list []json.RawMessage
		if json.Unmarshal(data, &list) == nil && len(list) == 1 {
			data = list[0]
		}
	}
	return oneLine(data), nil
}

// oneLine replaces line ends, which in JSON can only stand between tokens.
func oneLine(data []byte) []byte {
	for i, c := range data {
		if c == '\n' || c == '\r' {
			data[i] = ' '
		}
	}
	return data
}

// readLine returns the next line without its end, valid until the next call.
// With io.EOF it returns what stood behind the last line end.
func (b *answerBody) readLine() ([]byte, error) {
	line, err := b.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		b.line = append(b.line[:0], line...)
		for err == bufio.ErrBufferFull {
			line, err = b.in.ReadSlice('\n')
			b.line = append(b.line, line...)
		}
		line = b.line
	}
	return bytes.TrimSpace(line), err
}

// take reads one line and returns an event if it completes one.
func (b *answerBody) take(line []byte) []byte {
	field, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case len(line) == 0:
		return b.flush()
	case line[0] == ':':
		return nil // a comment keeps the connection alive
	case line[0] == '{' || line[0] == '<':
		value = line // some proxies send an error as it is, without "data:"
	case string(field) == "event":
		b.kind = string(bytes.TrimSpace(value))
		return nil
	case string(field) != "data":
		return nil // id, retry, and what the standard says to ignore
	}
	value = bytes.TrimSpace(value)
	switch {
	case len(b.pending) > 0:
		if bytes.Equal(value, doneMark) {
			b.done = true
			return b.flush()
		}
		b.pending = append(append(b.pending, ' '), value...)
		return nil
	case bytes.Equal(value, doneMark):
		b.done = true
		return nil
	case len(value) == 0:
		return nil
	case json.Valid(value):
		// Almost every event is one line. Not waiting for the blank line hands it
		// out sooner, and does without where an endpoint sends none.
		return b.named(value)
	}
	b.pending = append(b.pending[:0], value...)
	return nil
}

// flush returns the event that the lines so far make up, if any.
func (b *answerBody) flush() []byte {
	data := b.pending
	b.pending = b.pending[:0]
	if len(data) == 0 {
		b.kind = ""
		return nil
	}
	return b.named(data)
}

// named marks an event that only its name tells to be an error.
func (b *answerBody) named(data []byte) []byte {
	kind := b.kind
	b.kind = ""
	if kind != "error" || bytes.Contains(data, []byte(`"error"`)) {
		return data
	}
	if !json.Valid(data) {
		data, _ = json.Marshal(string(data)) // a string cannot fail to encode
	}
	return append(append([]byte(`{"error":`), data...), '}')
}

// last handles the end of the body: a line without an end, an event without a
// blank line. What is no JSON there was cut off, and is left out.
func (b *answerBody) last(line []byte) ([]byte, error) {
	if data := b.take(line); data != nil {
		return data, nil
	}
	if data := b.flush(); data != nil && json.Valid(data) {
		return data, nil
	}
	return nil, io.EOF
}

// flexText is a string in any of the forms that endpoints give it: a string,
// null, a number, an object with a text, or a list of these.
type flexText string

func (t *flexText) UnmarshalJSON(b []byte) error {
	if n := len(b) - 1; n > 1 && b[0] == '"' && string(b[1:n]) == string(*t) && bytes.IndexByte(b, '\\') < 0 {
		return nil // the model's name, once more
	}
	s, err := flexible(b, 0)
	*t = flexText(s)
	return err
}

func flexible(b []byte, depth int) (string, error) {
	switch {
	case string(b) == "null" || depth > 4: // nobody nests text deeper, and each level costs another scan
		return "", nil
	case b[0] == '"':
		if bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
			return string(b[1 : len(b)-1]), nil
		}
		var s string
		err := json.Unmarshal(b, &s)
		return s, err
	case b[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(b, &list); err != nil {
			return "", err
		}
		var all strings.Builder
		for _, e := range list {
			s, err := flexible(e, depth+1)
			if err != nil {
				return "", err
			}
			all.WriteString(s)
		}
		return all.String(), nil
	case b[0] == '{':
		var part struct {
			Text json.RawMessage `json:"text"`
			Msg  json.RawMessage `json:"msg"` // of a validation error
		}
		if err := json.Unmarshal(b, &part); err != nil {
			return "", err
		}
		for _, text := range []json.RawMessage{part.Text, part.Msg} {
			if len(text) > 0 {
				return flexible(text, depth+1)
			}
		}
		return "", nil
	}
	return string(b), nil
}

// arguments of a tool call are a string that holds JSON; some endpoints send
// the JSON itself.
type arguments string

func (a *arguments) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		return nil
	case b[0] == '"':
		return (*flexText)(a).UnmarshalJSON(b)
	}
	*a = arguments(b)
	return nil
}

// The parts of an event, streamed or whole, that count. What is not named here
// is not even decoded, so that it cannot fail.
type (
	event struct {
		Object  flexText        `json:"object"`
		Model   flexText        `json:"model"`
		Choices []choice        `json:"choices"`
		Usage   json.RawMessage `json:"usage"`
		XGroq   *groq           `json:"x_groq"`
		Error   json.RawMessage `json:"error"`
		Code    flexText        `json:"code"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	choice struct {
		Index        int             `json:"index"`
		Delta        output          `json:"delta"`
		Message      output          `json:"message"`
		LogProbs     json.RawMessage `json:"logprobs"`
		FinishReason flexText        `json:"finish_reason"`
	}
	output struct {
		Content          flexText     `json:"content"`
		Refusal          flexText     `json:"refusal"`
		ReasoningContent flexText     `json:"reasoning_content"`
		Reasoning        flexText     `json:"reasoning"`
		ToolCalls        []callPart   `json:"tool_calls"`
		FunctionCall     *functionOut `json:"function_call"` // of old servers
	}
	callPart struct {
		Index    *int        `json:"index"`
		ID       flexText    `json:"id"`
		Function functionOut `json:"function"`
	}
	functionOut struct {
		Name      flexText  `json:"name"`
		Arguments arguments `json:"arguments"`
	}
	groq struct {
		Usage json.RawMessage `json:"usage"`
	}
	wireUsage struct {
		Prompt     float64 `json:"prompt_tokens"` // some write 12.0
		Completion float64 `json:"completion_tokens"`
		CacheHit   float64 `json:"prompt_cache_hit_tokens"` // DeepSeek's word for it
		Details    struct {
			Cached float64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
)

// reset makes room for the next event, in the same memory. What nearly all
// events of an answer repeat stays, so that it is not copied again.
func (e *event) reset() {
	choices := e.Choices[:cap(e.Choices)]
	clear(choices)
	*e = event{Object: e.Object, Model: e.Model, Choices: choices[:0]}
}

func (e *event) usage() *llm.Usage {
	raw := e.Usage
	if len(raw) == 0 && e.XGroq != nil {
		raw = e.XGroq.Usage
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil // endpoints send null until the last event
	}
	var u wireUsage
	if json.Unmarshal(raw, &u) != nil || u == (wireUsage{}) {
		return nil // no answer shall fail for an odd count
	}
	counted, ok := llm.Usage{InputTokens: count(u.Prompt), OutputTokens: count(u.Completion), CachedTokens: count(max(u.CacheHit, u.Details.Cached))}.Plausible()
	if !ok {
		return nil
	}
	return &counted
}

// wireLogProb is one token in the list "content" of the protocol's log probabilities.
type wireLogProb struct {
	Token   string        `json:"token"`
	LogProb *float64      `json:"logprob"`
	Top     []wireLogProb `json:"top_logprobs"`
}

// logProbs reads the log probabilities of a choice. Those of another form than the
// protocol's, such as that of old completions, are none: no answer shall fail for them.
func (c *choice) logProbs() []llm.LogProb {
	var w struct {
		Content []wireLogProb `json:"content"`
	}
	if len(c.LogProbs) == 0 || json.Unmarshal(c.LogProbs, &w) != nil {
		return nil
	}
	return readLogProbs(w.Content)
}

func readLogProbs(wire []wireLogProb) []llm.LogProb {
	var list []llm.LogProb
	for _, w := range wire {
		if w.LogProb == nil {
			return nil // the others would say little without it
		}
		list = append(list, llm.LogProb{Token: w.Token, LogProb: *w.LogProb, Top: readLogProbs(w.Top)})
	}
	return list
}

// count returns a number that is none of tokens as one that is not plausible.
func count(n float64) int {
	if n < 0 || n > math.MaxInt32 {
		return -1
	}
	return int(n)
}

// failure returns the error that an event reports under a status of success.
// whole says that the event is all there is.
func (e *event) failure(whole bool) *apiError {
	switch string(e.Error) {
	case "", "null", "false", `""`, "{}":
	default:
		return parseError(e.Error)
	}
	if e.Object != "error" && (!whole || e.Choices != nil) {
		return nil
	}
	for _, text := range []json.RawMessage{e.Message, e.Detail} {
		if len(text) > 0 {
			f := parseError(text)
			f.Code = string(e.Code)
			return f
		}
	}
	return nil
}

func (o *output) text() string { return string(o.Content + o.Refusal) }

func (o *output) reasoning() string {
	if o.ReasoningContent != "" {
		return string(o.ReasoningContent) // some send both, and they are the same
	}
	return string(o.Reasoning)
}

// callList puts tool calls together from their parts.
type callList struct {
	calls   []*call
	byIndex map[int]*call
}

type call struct {
	id, name string
	args     strings.Builder
}

func (c *call) complete() bool { return c.args.Len() > 0 && json.Valid([]byte(c.args.String())) }

func (l *callList) addAll(o *output, whole bool) {
	for i := range o.ToolCalls {
		l.add(&o.ToolCalls[i], whole)
	}
	if o.FunctionCall != nil {
		l.add(&callPart{Function: *o.FunctionCall}, whole)
	}
}

// find returns the call that a part belongs to, nil for a new one. Only a part
// with a right index is unambiguous; the rest is what servers do without one,
// or with an index that is always 0.
func (l *callList) find(p *callPart) *call {
	id, name := string(p.ID), string(p.Function.Name)
	var last *call
	if n := len(l.calls); n > 0 {
		last = l.calls[n-1]
	}
	switch {
	case p.Index != nil:
		c := l.byIndex[*p.Index]
		if c == nil || id != "" && c.id != "" && c.id != id || id == "" && name != "" && c.complete() {
			return nil
		}
		return c
	case id != "":
		for _, c := range l.calls {
			if c.id == id {
				return c
			}
		}
		return nil
	case last == nil || name == "" || last.name == "":
		return last
	case last.name == name && last.args.Len() > 0 && !last.complete():
		return last // the name is repeated with every part
	}
	return nil
}

func (l *callList) add(p *callPart, whole bool) {
	var c *call
	if !whole {
		c = l.find(p)
	}
	if c == nil {
		c = &call{}
		l.calls = append(l.calls, c)
	}
	if p.Index != nil {
		if l.byIndex == nil {
			l.byIndex = map[int]*call{}
		}
		l.byIndex[*p.Index] = c
	}
	if p.ID != "" {
		c.id = string(p.ID)
	}
	if name := string(p.Function.Name); name != c.name && c.args.Len() == 0 {
		c.name += name
	}
	c.args.WriteString(string(p.Function.Arguments))
}

// all yields the calls, each with an id of its own.
func (l *callList) all() iter.Seq[llm.ToolCall] {
	return func(yield func(llm.ToolCall) bool) {
		used := make(map[string]bool, len(l.calls))
		for _, c := range l.calls {
			if c.id == "" || used[c.id] {
				c.id = "call_" + randomHex()
			}
			used[c.id] = true
			if !yield(llm.ToolCall{ID: c.id, Name: c.name, Arguments: c.args.String()}) {
				return
			}
		}
	}
}

// finishReason reads the finish reason of an answer that has ended well. What
// counts is whether calls are there; the reason may be stop or missing.
func finishReason(reason string, calls bool) llm.FinishReason {
	switch strings.ToLower(reason) {
	case "length", "max_tokens":
		return llm.FinishLength
	case "content_filter", "safety":
		return llm.FinishContentFilter
	case "", "stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "tool_use", "function_call":
		if calls {
			return llm.FinishToolCalls
		}
		return llm.FinishStop
	}
	return llm.FinishReason(reason)
}
