package openai

import (
	"encoding/json"
	"math"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/llm"
)

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
func (e *event) failure(whole bool) *goopenai.APIError {
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
