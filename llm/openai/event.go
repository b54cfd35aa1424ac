package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/llm"
)

// The fields of an event, streamed or complete, that are used. Fields that are not named here are not decoded, so they
// cannot fail.
type (
	event struct {
		failing
		Model   flexText        `json:"model"`
		Choices []choice        `json:"choices"`
		Usage   json.RawMessage `json:"usage"`
		XGroq   *groq           `json:"x_groq"`
	}
	// failing contains the fields of an event, in either protocol, that may report an error.
	failing struct {
		Type      flexText        `json:"type"`
		Object    flexText        `json:"object"`
		Error     json.RawMessage `json:"error"`
		Code      flexText        `json:"code"`
		ErrorCode flexText        `json:"error_code"`
		Message   json.RawMessage `json:"message"`
		Msg       json.RawMessage `json:"msg"`
		ErrorMsg  json.RawMessage `json:"error_msg"`
		Detail    json.RawMessage `json:"detail"`
		Errors    json.RawMessage `json:"errors"`
		Success   flexText        `json:"success"`
		Base      struct {        // MiniMax
			Code flexText        `json:"status_code"`
			Msg  json.RawMessage `json:"status_msg"`
		} `json:"base_resp"`
	}
	choice struct {
		Index        flexText        `json:"index"`
		Delta        output          `json:"delta"`
		Message      output          `json:"message"`
		Text         pieceText       `json:"text"`  // of old completions
		Usage        json.RawMessage `json:"usage"` // Kimi
		LogProbs     json.RawMessage `json:"logprobs"`
		FinishReason reasonField     `json:"finish_reason"`
		CamelReason  reasonField     `json:"finishReason"`         // gateways that convert names
		NativeReason flexText        `json:"native_finish_reason"` // OpenRouter
		Error        json.RawMessage `json:"error"`
	}
	output struct {
		Content          contentField    `json:"content"`
		Refusal          pieceText       `json:"refusal"`
		ReasoningContent thoughtText     `json:"reasoning_content"`
		Reasoning        thoughtText     `json:"reasoning"`
		ReasoningText    thoughtText     `json:"reasoning_text"` // Copilot
		Thinking         thoughtText     `json:"thinking"`       // gateways to Ollama and Claude
		Details          json.RawMessage `json:"reasoning_details"`
		Blocks           json.RawMessage `json:"thinking_blocks"` // LiteLLM
		ToolCalls        callParts       `json:"tool_calls"`
		CamelCalls       callParts       `json:"toolCalls"`     // gateways that convert names
		FunctionCall     *functionOut    `json:"function_call"` // of old servers
		Error            json.RawMessage `json:"error"`
	}
	callPart struct {
		Index       flexText    `json:"index"`
		ID          flexText    `json:"id"`
		Function    functionOut `json:"function"`
		functionOut             // some endpoints write the fields without a function around them
	}
	functionOut struct {
		Name       flexText  `json:"name"`
		Arguments  arguments `json:"arguments"`
		Parameters arguments `json:"parameters"`
		Input      arguments `json:"input"`
		Args       arguments `json:"args"`
		opaque
	}
	groq struct {
		Usage json.RawMessage `json:"usage"`
		Error json.RawMessage `json:"error"` // why it stopped early
	}
	// wireUsage is a usage with the field names of either protocol.
	wireUsage struct {
		Prompt      flexText  `json:"prompt_tokens"` // a number, or a text with one
		Completion  flexText  `json:"completion_tokens"`
		Input       flexText  `json:"input_tokens"`
		Output      flexText  `json:"output_tokens"`
		Total       flexText  `json:"total_tokens"`
		Written     flexText  `json:"cache_creation_input_tokens"`
		AnswerParts usagePart `json:"completion_tokens_details"`
		OutputParts usagePart `json:"output_tokens_details"`
	}
	usagePart struct {
		Reasoning flexText `json:"reasoning_tokens"`
	}
)

// decode reads an event. It leaves out a field of another form if the field is empty, such as an empty list in place of
// an object. For any other field of another form it returns an error, so that no part of an answer is lost.
func decode[T any](data []byte, event *T) error {
	err := json.Unmarshal(data, event)
	if !errors.As(err, new(*json.UnmarshalTypeError)) {
		return err
	}
	var full any
	_ = plainjson.Unmarshal(data, &full) // its syntax is right
	dropEmpty(full)
	data, _ = json.Marshal(full)
	return json.Unmarshal(data, new(T))
}

// dropEmpty removes the empty members of the objects in a value, and reports whether the value is empty.
func dropEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, member any) bool { return dropEmpty(member) })
		return len(v) == 0
	case []any:
		for _, e := range v {
			dropEmpty(e)
		}
		return len(v) == 0
	}
	return v == nil || v == false || v == ""
}

// reset prepares for the next event and reuses the memory. It keeps the fields that nearly all events of an answer
// repeat, so that they are not copied again.
func (e *event) reset() {
	choices := e.Choices[:cap(e.Choices)]
	clear(choices)
	*e = event{failing: failing{Object: e.Object}, Model: e.Model, Choices: choices[:0]}
}

// usage returns the event's usage, or nil: endpoints send null until the last event.
func (e *event) usage() *usageReport {
	u := readUsage(e.Usage)
	if u == nil && e.XGroq != nil {
		u = readUsage(e.XGroq.Usage)
	}
	for i := range e.Choices {
		if u == nil {
			u = readUsage(e.Choices[i].Usage)
		}
	}
	return u
}

// unwrapped returns the answer that a gateway has wrapped in another object, under data, result or another name, or nil
// (smallmain/vscode-unify-chat-provider#71). Answers have the member named has, which is empty next to a usage.
func unwrapped(data []byte, has string) []byte {
	var members, inner map[string]json.RawMessage
	if !bytes.Contains(data, []byte(has)) || json.Unmarshal(data, &members) != nil {
		return nil
	}
	for _, member := range members {
		if member = unlisted(member); json.Unmarshal(member, &inner) == nil && (reported(inner[has]) || inner[has] != nil && reported(inner["usage"])) {
			return member
		}
		clear(inner)
	}
	return nil
}

// usageReport is the usage that an endpoint reports. reasoning is the part of the output that it names as reasoning.
type usageReport struct {
	llm.Usage
	reasoning int
}

// after returns the usage with the counts of an earlier one that it lacks: gateways to Claude give the input at the
// beginning of an answer and the output at its end (llm-d/llm-d-router#2437).
func (u *usageReport) after(earlier *usageReport) *usageReport {
	if earlier == nil {
		return u
	}
	if u.InputTokens == 0 {
		u.InputTokens, u.CachedTokens = earlier.InputTokens, earlier.CachedTokens
	}
	if u.OutputTokens == 0 {
		u.OutputTokens, u.reasoning = earlier.OutputTokens, earlier.reasoning
	}
	return u
}

// readUsage reads a usage. It returns nil for an invalid one, because an answer must not fail for it. What only the total
// contains is the input if it has no count, or what is in the cache, if it is as much as that, or else reasoning, which xAI
// and Gemini count apart from the output (vercel/ai#12425, mozilla-ai/any-llm#1290).
func readUsage(raw json.RawMessage) *usageReport {
	if len(raw) == 0 || raw[0] != '{' {
		return nil // before u is allocated
	}
	var u wireUsage
	if json.Unmarshal(raw, &u) != nil {
		return nil
	}
	counted, ok := llm.Usage{InputTokens: count(cmp.Or(u.Prompt, u.Input)), OutputTokens: count(cmp.Or(u.Completion, u.Output)),
		CachedTokens: cachedIn(raw)}.Plausible()
	if !ok || counted == (llm.Usage{}) {
		return nil
	}
	reasoning := max(count(u.AnswerParts.Reasoning), count(u.OutputParts.Reasoning))
	apart := count(u.Total) - counted.InputTokens - counted.OutputTokens
	if u.Total == "" && reasoning > counted.OutputTokens {
		apart = reasoning
	}
	whole, kept := counted, counted.CachedTokens+max(count(u.Written), 0)
	switch {
	case apart <= 0: // the counts contain all
	case cmp.Or(u.Prompt, u.Input) == "" && u.Total != "":
		whole.InputTokens = apart
	case apart != reasoning && (apart == kept || apart == kept+reasoning):
		whole.InputTokens += kept
		whole.OutputTokens += apart - kept
	default:
		whole.OutputTokens, reasoning = whole.OutputTokens+apart, max(reasoning, apart)
	}
	if whole, ok = whole.Plausible(); !ok {
		whole = counted
	}
	return &usageReport{whole, min(reasoning, whole.OutputTokens)}
}

// cacheReads matches the names of counts of tokens that came from a cache, in lower case. Each provider has its own:
// cached_tokens, num_cached_tokens, prompt_cache_hit_tokens, cacheReadInputTokens.
var cacheReads = lazyregexp.New(`(^|[^n_]_?)cached|cache_?(read|hit)`)

// cachedIn returns the greatest such count of a usage or of its details.
func cachedIn(usage json.RawMessage) (n int) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(usage, &members) // what is no object has no counts
	for name, value := range members {
		name = strings.ToLower(name)
		var written flexText
		switch {
		case value[0] == '{' && strings.Contains(name, "details"):
			n = max(n, cachedIn(value))
		case (name == "cached" || strings.Contains(name, "token")) && cacheReads.Get().MatchString(name) && json.Unmarshal(value, &written) == nil:
			n = max(n, count(written))
		}
	}
	return n
}

// wireLogProb is one token in the list "content" of the protocol's log probabilities.
type wireLogProb struct {
	Token   string        `json:"token"`
	LogProb *float64      `json:"logprob"`
	Top     []wireLogProb `json:"top_logprobs"`
}

// logProbs returns the log probabilities of a choice. It ignores other formats than the protocol's, such as that of old
// completions, because an answer must not fail for them.
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
			return nil // without it, the others are of little use
		}
		list = append(list, llm.LogProb{Token: w.Token, LogProb: *w.LogProb, Top: readLogProbs(w.Top)})
	}
	return list
}

// UnmarshalJSON ignores details of another form, such as a list, so that the counts next to them are not lost.
func (c *usagePart) UnmarshalJSON(b []byte) error {
	type part usagePart
	_ = json.Unmarshal(b, (*part)(c))
	return nil
}

// count returns the number, or an implausible one if it is not a number of tokens.
func count(written flexText) int {
	n, err := strconv.ParseFloat(string(written), 64)
	if written != "" && err != nil || !(n >= 0 && n <= math.MaxInt32) { // NaN is no number of tokens either
		return -1
	}
	return int(n)
}

// reported reports whether the field of an error is set.
func reported(raw json.RawMessage) bool {
	return len(raw) > 0 && !slices.Contains([]string{"null", "false", "0", `""`, "{}", "[]"}, string(raw))
}

// failure returns the error that an event reports under a status of success. bare reports that the event has no part of
// an answer, and whole that it is the whole body.
func (f *failing) failure(bare, whole bool) *goopenai.APIError {
	named := reported(f.Error)
	if named && strings.IndexByte(`"{[`, f.Error[0]) >= 0 { // others, such as true, only say that it is one
		e := parseError(f.Error)
		if f.Error[0] == '"' && reported(f.Message) {
			e.Message += ": " + parseError(f.Message).Message
		}
		return e
	}
	fails := f.Type == "error" || f.Object == "error" || named
	code, texts := cmp.Or(f.Code, f.ErrorCode), []json.RawMessage{f.Message, f.Msg, f.ErrorMsg, f.Detail, f.Errors}
	if base := f.Base.Code; base != "" && base != "0" {
		code, texts, fails = "base_resp "+base, []json.RawMessage{f.Base.Msg}, true
	}
	fails = fails || bare && (f.Success == "false" || !slices.Contains([]flexText{"", "0", "200", "success", "ok", "OK"}, code))
	for _, text := range texts {
		if reported(text) && (fails || bare && whole) {
			e := parseError(text)
			if code != "" {
				e.Code = string(code)
			}
			return e
		}
	}
	if !fails {
		return nil
	}
	return &goopenai.APIError{Code: string(code)}
}

// values returns the call's id, name and arguments, as far as they are set.
func (p *callPart) values() (id, name, args string) {
	in, out := &p.Function, &p.functionOut
	return string(p.ID), string(cmp.Or(in.Name, out.Name)), string(cmp.Or(in.Arguments, in.Parameters, in.Input, in.Args, out.Arguments, out.Parameters, out.Input, out.Args))
}

// text returns the text of the answer. Some gateways write a refusal to both fields.
func (o *output) text() string {
	if o.Content.pieceText == o.Refusal {
		return string(o.Refusal)
	}
	return string(o.Content.pieceText + o.Refusal)
}

// toolCalls returns the calls. Some gateways leave them among the parts of the content, as Claude returns them.
func (o *output) toolCalls() callParts {
	switch {
	case len(o.ToolCalls) > 0:
		return o.ToolCalls
	case len(o.CamelCalls) > 0:
		return o.CamelCalls
	}
	return o.Content.calls
}

func (o *output) reasoning() string {
	return string(cmp.Or(o.ReasoningContent, o.Reasoning, o.ReasoningText, o.Thinking, thoughtText(o.Content.thought))) // some endpoints send two with the same text
}

// details returns the entries of the reasoning.
func (o *output) details() json.RawMessage {
	if !reported(o.Details) {
		return o.Blocks
	}
	return o.Details
}

// field returns the name of the field with the reasoning.
func (o *output) field() string {
	switch {
	case o.ReasoningContent != "":
		return "reasoning_content"
	case o.Reasoning != "":
		return "reasoning"
	case o.ReasoningText != "":
		return "reasoning_text"
	case o.Thinking != "":
		return "thinking"
	}
	return ""
}

// extras returns the opaque fields of the part, and whether there are any.
func (p *callPart) extras() (x callExtras, some bool) {
	x.take(&p.functionOut.opaque)
	var in opaque
	if in.take(&p.Function.opaque); !in.empty() {
		x.Function = &in
	}
	return x, x.Function != nil || !x.empty()
}
