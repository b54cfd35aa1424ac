package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
)

// afterFinish is the longest silence after a finish reason. Only usage and [DONE] can follow it, and some endpoints
// never send them.
const afterFinish = 5 * time.Second

// reading is the state of an answer that is being read.
type reading struct {
	ev       event
	chunks   []llm.Chunk // of the last event, not yielded yet
	calls    callList
	old      callList // the calls of the old field function_call
	deltas   bool     // pieces came, so messages repeat their sum
	text     textPieces
	thought  textPieces
	joiners  [2]characterJoiner // of text and of reasoning
	field    string             // the field in which reasoning comes
	details  details
	thoughts int // the bytes of reasoning that were yielded
	choices  choices

	thinking thinking
	leaks    *leakFilter // holds back text that may be a call
	tools    []llm.ToolSpec
	form     quirks // of the request
	probs    bool   // the request asks for log probabilities
	begun    bool   // a part of the answer was yielded
	usage    *usageReport
	limit    int // the most tokens that the answer may have; 0 if the request sets no limit
	model    string
	asked    string // the model's name in the request
	end      ending
	reason   string // the finish reason as the endpoint wrote it
	none     bool   // a choice had an empty finish_reason
	choice   bool   // the answer has a choice
	refused  bool   // the answer is an error object
	items           // the items of an answer of the Responses API
}

// finish processes a finish reason.
func (a *attempt) finish(reason string) {
	r := &a.reading
	if end := endingOf(reason); end > r.end {
		r.end, r.reason = end, reason
		a.watch.shortenSilence(afterFinish)
	}
}

// event waits for one event of the answer, and processes it. It returns io.EOF at a regular end.
func (a *attempt) event() error {
	a.reading.chunks = a.reading.chunks[:0]
	data, err := a.next()
	switch {
	case err != nil:
		return a.noEvent(err)
	case a.client.responses:
		return a.responsesEvent(data)
	}
	return a.completionsEvent(data)
}

// noEvent processes the end of the answer, or the error in the place of an event.
func (a *attempt) noEvent(err error) error {
	if err != io.EOF && a.reading.end != endNone {
		a.client.log.LogAttrs(a.ctx, slog.LevelDebug, "an answer broke off after its finish reason, and counts", slog.Any("error", err))
		err = io.EOF
	}
	if err == io.EOF {
		return a.ended()
	}
	return err
}

// completionsEvent processes an event of the chat-completions protocol.
func (a *attempt) completionsEvent(data []byte) error {
	r := &a.reading
	r.ev.reset()
	err := decode(data, &r.ev)
	if err == nil && len(r.ev.Choices) == 0 {
		if inner := unwrapped(data, "choices"); inner != nil {
			r.ev.reset()
			err = decode(inner, &r.ev)
		}
	}
	if err != nil {
		return a.client.badEvent(data, err)
	}
	if g := r.ev.XGroq; g != nil && reported(g.Error) {
		r.ev.Error = g.Error
	}
	if e := r.ev.failure(len(r.ev.Choices) == 0, a.body.json); e != nil {
		r.refused = true
		return a.client.objectError(e)
	}
	if u := r.ev.usage(); u != nil {
		r.usage = u.after(r.usage)
	} else if len(r.ev.Choices) == 0 {
		a.body.strange(data)
	}
	if r.ev.Model != "" {
		r.model = string(r.ev.Model)
	}
	r.choice = r.choice || len(r.ev.Choices) > 0
	for i := range r.ev.Choices {
		c := &r.ev.Choices[i]
		for _, failed := range [...]json.RawMessage{c.Error, c.Delta.Error, c.Message.Error} {
			if reported(failed) {
				r.refused = true
				return a.client.objectError(parseError(failed))
			}
		}
		a.readChoice(c, a.body.json)
	}
	return a.strayed()
}

// readChoice processes a choice of an event.
func (a *attempt) readChoice(c *choice, whole bool) {
	r := &a.reading
	delta, message := &c.Delta, &c.Message
	delta.ToolCalls, message.ToolCalls = delta.toolCalls(), message.toolCalls()
	c.FinishReason = cmp.Or(c.FinishReason, c.CamelReason)
	if delta.text() == "" && message.text() == "" {
		delta.Content.pieceText = c.Text
	}
	parts := len(delta.ToolCalls) > 0 || delta.FunctionCall != nil
	thought := delta.reasoning()
	detailed := r.details.take(delta.details(), false, false)
	r.field = cmp.Or(r.field, delta.field(), message.field())
	r.deltas = r.deltas || parts || delta.text() != "" || thought != "" || detailed != ""
	detailed += r.details.take(message.details(), true, r.deltas)
	belongs := a.belongs(c, len(r.ev.Choices) == 1, parts || len(message.ToolCalls) > 0 || message.FunctionCall != nil)
	for _, out := range [...]*output{delta, message} {
		for i := range out.ToolCalls {
			switch p := &out.ToolCalls[i]; {
			case whole:
				c := r.calls.start()
				c.fill(p.values())
				c.keep(p)
			case out == message && r.deltas:
				r.calls.set(p, i)
			default:
				if out == message {
					p.Index = cmp.Or(p.Index, flexText(strconv.Itoa(i)))
				}
				r.calls.add(p)
			}
		}
		if out.FunctionCall != nil {
			p := &callPart{Function: *out.FunctionCall}
			if out == message && r.deltas {
				r.old.set(p, 0)
			} else {
				r.old.add(p)
			}
		}
	}
	defer r.native() // the text of this event came before its calls
	if !belongs {
		return
	}
	last := c.FinishReason.flexText != ""
	r.addText(r.text.add(delta.text(), last), r.thought.add(thought, last))
	r.addText(r.text.whole(message.text(), r.deltas), r.thought.whole(message.reasoning(), r.deltas))
	if detailed != "" && r.field == "" {
		r.addText("", r.thought.put(detailed))
	}
	if r.probs {
		if probs := c.logProbs(); len(probs) > 0 {
			r.chunks = append(r.chunks, llm.Chunk{LogProbs: probs})
		}
	}
	r.none = r.none || c.FinishReason.none
	a.finish(string(c.FinishReason.flexText))
	native, end := strings.ToLower(string(c.NativeReason)), endingOf(string(c.NativeReason))
	if strings.Contains(native, "error") || strings.Contains(native, "malformed") || end == endLength || end == endFilter {
		a.finish(native)
	}
}

// native tells the filter of leaked calls that native calls came, if some did.
func (r *reading) native() {
	if !r.calls.named() && !r.old.named() {
		return
	}
	if held := r.leaks.nativeCall(); held != "" {
		r.chunks = append(r.chunks, llm.Chunk{Text: held})
	}
}

// begin processes events until there is something to yield, or the answer ends. It returns an error if the endpoint
// reports one instead of an answer, or stops the answer at once: nothing has been yielded, so the request may be sent
// again, as after an error status. All other errors are returned by read.
func (a *attempt) begin() error {
	for a.err == nil && len(a.reading.chunks) == 0 {
		a.err = a.event()
	}
	if a.reading.refused {
		return a.err
	}
	return nil
}

// read yields the answer. It yields text and reasoning as they come; calls, usage and the finish reason only after a
// regular end.
func (a *attempt) read(yield func(llm.Chunk) error) error {
	for a.err == nil {
		if err := a.yieldChunks(yield); err != nil {
			return err
		}
		a.err = a.event()
	}
	if a.err != io.EOF {
		return a.err
	}
	if err := a.yieldChunks(yield); err != nil {
		return err
	}
	return a.yieldEnd(yield)
}

// yieldChunks yields the text and the reasoning of the last event.
func (a *attempt) yieldChunks(yield func(llm.Chunk) error) error {
	for _, chunk := range a.reading.chunks {
		if err := yield(chunk); err != nil {
			return err
		}
	}
	return nil
}

// yieldEnd yields what the end of the answer decides: text that was held back, calls, usage and the finish reason.
func (a *attempt) yieldEnd(yield func(llm.Chunk) error) error {
	r := &a.reading
	calls := unrolled(r.calls.end(&r.old), r.tools)
	words, leaked := r.leaks.end(calls)
	if r.leaks.endsInCall() && r.end != endFilter {
		return a.client.truncated(errors.New("it ends within a call that the model wrote as text"), a.body.odd)
	}
	calls = append(calls, leaked...)
	if len(calls) == 0 && words == "" {
		words = a.answerInReasoning()
	}
	if words != "" {
		if err := yield(llm.Chunk{Text: words}); err != nil {
			return err
		}
	}
	if u := r.usage; r.limit > 0 && u != nil && u.OutputTokens-u.reasoning >= r.limit && len(calls) > 0 {
		// Some servers then end with tool_calls, and may complete a call that was cut. The limits of some leave reasoning out.
		r.end = max(r.end, endLength)
	}
	if r.end == endFilter {
		calls = nil // the text that was held back may be a part of them
	}
	if sealed := r.seal(calls); sealed != "" {
		if err := yield(llm.Chunk{Sealed: sealed}); err != nil {
			return err
		}
	}
	for i := range calls {
		if i >= len(calls)-len(leaked) {
			a.client.log.LogAttrs(a.ctx, slog.LevelDebug, "a call written as text counts as a call", slog.String("model", r.model), slog.String("tool", calls[i].Name))
		}
		if !strings.Contains(calls[i].Name, "<arg_key>") { // otherwise its arguments are in its name
			calls[i].Name = resolveName(r.tools, calls[i].Name, strings.EqualFold)
		}
		if at := slices.IndexFunc(r.tools, func(t llm.ToolSpec) bool { return hasName(t, calls[i].Name) }); at >= 0 {
			parameters, own := r.tools[at].Parameters, keyNames(nil)
			if r.form.has(quirkPlainKeys) {
				var wire keyNames
				wire, own = plainNames(parameters)
				parameters = json.RawMessage(wire.apply(string(parameters), inSchema))
			}
			calls[i].Arguments = own.apply(fitted(calls[i].Name, calls[i].Arguments, parameters, r.form.has(quirkBareSchemas)), inValue)
		}
		if err := yield(llm.Chunk{Call: &calls[i]}); err != nil {
			return err
		}
	}
	finish := r.end.finishReason(len(calls) > 0)
	if finish == llm.FinishLength && r.leaks.suppressed() {
		finish = llm.FinishStop // a higher limit of tokens would not have helped
	}
	last := llm.Chunk{Model: r.model, Finish: finish}
	if r.usage != nil {
		last.Usage = &r.usage.Usage
	}
	return yield(last)
}

// answerInReasoning returns the answer of a model that was told not to think, and whose endpoint takes all that it writes
// for reasoning. It returns "" if there is a text, or if the reasoning contains a call.
func (a *attempt) answerInReasoning() string {
	r := &a.reading
	if on := r.thinking.req.Thinking; on == nil || *on || !r.text.empty() || r.end != endWell {
		return ""
	}
	leaks := a.client.leaksOf(r.thinking.req)
	words := leaks.filter(r.thought.all.String())
	rest, calls := leaks.end(nil)
	if len(calls) > 0 || leaks.suppressed() || leaks.endsInCall() {
		return ""
	}
	return words + rest
}

// fitted returns the arguments of a call in the form that its tool takes, if what the model wrote has one meaning. It
// removes an object that models copy around them, whose only member is arguments, parameters or the like, or which also
// names the tool. The tool must have no parameters with these names, and those within, or its schema must refuse the
// object and allow what is within.
func fitted(tool, args string, parameters json.RawMessage, bare bool) string {
	if len(args) > 1<<20 {
		return args
	}
	takes, given := cmp.Or(schema.ReadShape(parameters), &schema.Shape{}), membersOf(args)
	if inner, members, named := innerArguments(tool, given, takes, parameters); members != nil {
		inner = fittedObject(inner, members, takes, bare)
		if named || schema.Fits(parameters, json.RawMessage(args)) != nil && schema.Fits(parameters, json.RawMessage(inner)) == nil {
			return inner
		}
	}
	return fittedObject(args, given, takes, bare)
}

// fittedObject returns an object whose members it may change. The name of a parameter loses the tokens of a template after it, if the
// tool takes only parameters that it names. Otherwise it changes only the values of parameters. If the model got a bare
// schema, which has texts in place of objects and of lists of types, it also changes what is within the values, and
// removes the placeholder.
func fittedObject(args string, given map[string]json.RawMessage, takes *schema.Shape, bare bool) string {
	changed := false
	if _, filled := given[placeholder]; filled && bare && len(takes.Members) == 0 {
		delete(given, placeholder)
		changed = true
	} else if len(takes.Members) == 0 {
		return args
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		at := strings.IndexByte(key, '<')
		if at > 0 && takes.Members[key] == nil && !takes.Open && aroundArguments.Get().MatchString(key[at:]) {
			if name := strings.TrimSpace(key[:at]); takes.Members[name] != nil && given[name] == nil {
				given[name], changed = given[key], true
				delete(given, key)
			}
		}
	}
	if fit(given, takes, bare) || changed {
		all, _ := plainjson.Marshal(given) // cannot fail: its values are JSON
		return string(all)
	}
	return args
}

// membersOf returns the members of an object that all programs read alike, or nil.
func membersOf(object string) (members map[string]json.RawMessage) {
	if hasOneMeaning(object) {
		_ = json.Unmarshal([]byte(object), &members)
	}
	return members
}

// hasOneMeaning reports whether all programs read the same in a JSON value: it is UTF-8, and no key comes twice.
func hasOneMeaning(value string) bool {
	_, err := schema.Decode(json.RawMessage(value))
	return err == nil
}

// innerArguments returns the object within an object that may be around arguments, and its members, or nil. named reports
// that the tool has parameters with the names within, and no parameter with a name around them.
func innerArguments(tool string, given map[string]json.RawMessage, takes *schema.Shape, parameters json.RawMessage) (inner string, members map[string]json.RawMessage, named bool) {
	within, wrappers := memberOf(given, argumentKeys)
	name, names := memberOf(given, nameKeys)
	if len(takes.Members) == 0 || wrappers != 1 || names > 1 || wrappers+names != len(given) || names == 1 && string(name) != quote(tool) {
		return "", nil, false
	}
	named = !takes.Open
	refers := bytes.Contains(parameters, []byte(`"$ref"`)) || bytes.Contains(parameters, []byte(`Ref"`))
	for key := range given {
		if takes.Members[key] != nil {
			return "", nil, false
		}
		named = named && !(refers && bytes.Contains(parameters, []byte(quote(key)))) && !slices.Contains(takes.Required, key)
	}
	text := ""
	if inner = string(within); json.Unmarshal(within, &text) == nil {
		inner = text
	}
	members = membersOf(inner)
	for key := range members {
		named = named && takes.Members[key] != nil
	}
	return inner, members, named
}

// fit changes the members of an object to the form that a tool takes, and reports whether it has changed one. It
// removes null and an empty text for an optional member that can be neither.
func fit(given map[string]json.RawMessage, takes *schema.Shape, within bool) (changed bool) {
	for key, value := range given {
		fits := fittedValue(value, takes.Members[key].Shape(), within)
		if empty := string(value) == "null" || string(value) == `""`; fits == nil && empty && !slices.Contains(takes.Required, key) {
			delete(given, key)
			changed = true
		} else if fits != nil && string(fits) != string(value) {
			given[key], changed = fits, true
		}
	}
	return changed
}

// fittedValue returns a value in the form that its schema takes, or nil if the schema refuses it in any form. A value
// that was written as a text becomes the value, if it cannot be a text. A number becomes a text if the value can be a
// text and no number, and has no enum or one that lists this text.
func fittedValue(value json.RawMessage, takes *schema.Shape, within bool) json.RawMessage {
	if takes == nil {
		return value
	}
	kind := kindOf(string(value))
	switch {
	case kind == "string" && !takes.Allows(kind):
		var text string
		_ = json.Unmarshal(value, &text) // cannot fail: it was decoded from JSON
		fits := typed(text, takes)
		if !takes.Allows(kindOf(fits)) || !hasOneMeaning(fits) {
			return nil
		}
		value = json.RawMessage(fits)
	case (kind == "integer" || kind == "number") && !takes.Allows("integer") && takes.AllowsText(string(value)):
		value = json.RawMessage(quote(string(value)))
	case !takes.Allows(kind):
		return nil
	}
	if !within {
		return value
	}
	var items []json.RawMessage
	var given map[string]json.RawMessage
	changed := json.Unmarshal(value, &given) == nil && given != nil && fit(given, takes, within)
	if changed {
		value, _ = plainjson.Marshal(given) // cannot fail: its values are JSON
	}
	if json.Unmarshal(value, &items) == nil && items != nil {
		each := takes.Items.Shape()
		for i, item := range items {
			if fits := fittedValue(item, each, within); fits != nil {
				items[i] = fits
			}
		}
		value, _ = plainjson.Marshal(items) // cannot fail: its values are JSON
	}
	return value
}

// kindOf returns the type of a value in JSON. A number without a fraction is an integer.
func kindOf(value string) string {
	if of, ok := map[byte]string{'{': "object", '[': "array", '"': "string", 't': "boolean", 'f': "boolean", 'n': "null"}[value[0]]; ok {
		return of
	}
	if f, err := strconv.ParseFloat(value, 64); err != nil || f != math.Trunc(f) {
		return "number"
	}
	return "integer"
}

// offers reports whether the request has a tool with the name.
func (r *reading) offers(name string) bool { return offers(r.tools, name) }
