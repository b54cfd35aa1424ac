package endpoint

import (
	"cmp"
	"math"
	"net/http"
	"strings"

	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
)

// The JSON of an answer, streamed and complete.
type (
	wireAnswer struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`
		Created int64        `json:"created"`
		Model   string       `json:"model"`
		Choices []wireChoice `json:"choices"`
		Usage   *wireUsage   `json:"usage,omitempty"`
	}
	wireChoice struct {
		Index        int               `json:"index"`
		Message      *wireOutput       `json:"message,omitempty"`
		Delta        *wireOutput       `json:"delta,omitempty"`
		LogProbs     *wireLogProbs     `json:"logprobs,omitempty"`
		FinishReason *llm.FinishReason `json:"finish_reason"`
	}
	wireLogProbs struct {
		Content []wireLogProb `json:"content"`
	}
	wireLogProb struct {
		Token   string        `json:"token"`
		LogProb float64       `json:"logprob"`
		Bytes   []int         `json:"bytes"`
		Top     []wireLogProb `json:"top_logprobs,omitempty"`
	}
	wireOutput struct {
		Role      string     `json:"role,omitempty"`
		Content   *string    `json:"content,omitempty"`
		Reasoning string     `json:"reasoning_content,omitempty"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
	}
	wireCall struct {
		Index *int `json:"index,omitempty"`
		chatform.Call
	}
	wireUsage struct {
		PromptTokens     int          `json:"prompt_tokens"`
		CompletionTokens int          `json:"completion_tokens"`
		TotalTokens      int          `json:"total_tokens"`
		Details          *wireDetails `json:"prompt_tokens_details,omitempty"`
	}
	wireDetails struct {
		CachedTokens int `json:"cached_tokens"`
	}
)

// logProbs returns nil if the answer has none.
func logProbs(list []llm.LogProb) *wireLogProbs {
	if len(list) == 0 {
		return nil
	}
	return &wireLogProbs{wireLogProbList(list)}
}

func wireLogProbList(list []llm.LogProb) (wire []wireLogProb) {
	for _, p := range list {
		w := wireLogProb{Token: p.Token, LogProb: max(p.LogProb, -math.MaxFloat32), Top: wireLogProbList(p.Top)}
		for _, b := range []byte(p.Token) {
			w.Bytes = append(w.Bytes, int(b))
		}
		wire = append(wire, w)
	}
	return wire
}

func usage(u *llm.Usage) *wireUsage {
	w := &wireUsage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens}
	if u.CachedTokens > 0 {
		w.Details = &wireDetails{u.CachedTokens}
	}
	return w
}

// chatAnswer writes an answer in the form of chat completions.
type chatAnswer struct {
	output
	answer          wireAnswer
	showsUsage      bool
	usage           *llm.Usage
	calls           []wireCall
	text, reasoning strings.Builder // of a complete answer
	probs           []llm.LogProb   // likewise
}

func (a *chatAnswer) write(c llm.Chunk) {
	a.answer.Model = cmp.Or(c.Model, a.answer.Model)
	a.usage = cmp.Or(c.Usage, a.usage)
	delta := &wireOutput{Reasoning: c.Reasoning}
	if c.Call != nil {
		call := wireCall{Call: chatform.CallOf(*c.Call)}
		a.calls = append(a.calls, call)
		index := len(a.calls) - 1
		call.Index = &index
		delta.ToolCalls = []wireCall{call}
	}
	if !a.streams {
		a.text.WriteString(c.Text)
		a.reasoning.WriteString(c.Reasoning)
		a.probs = append(a.probs, c.LogProbs...)
		return
	}
	if !a.started {
		delta.Role = "assistant"
	}
	if c.Text != "" {
		delta.Content = &c.Text
	}
	if delta.Role != "" || c.Text != "" || c.Reasoning != "" || c.Call != nil || len(c.LogProbs) > 0 {
		a.choices(wireChoice{Delta: delta, LogProbs: logProbs(c.LogProbs)})
	}
	if c.Finish != "" {
		a.choices(wireChoice{Delta: &wireOutput{}, FinishReason: &c.Finish})
	}
}

// choices sends an event with these choices.
func (a *chatAnswer) choices(list ...wireChoice) {
	answer := a.answer
	answer.Object, answer.Choices = "chat.completion.chunk", append([]wireChoice{}, list...)
	a.event("", answer)
}

func (a *chatAnswer) finish(reason llm.FinishReason) {
	if a.showsUsage && a.usage != nil {
		a.answer.Usage = usage(a.usage)
		if a.streams {
			a.choices()
		}
	}
	if a.streams {
		a.raw("data: [DONE]\n\n")
		return
	}
	text := a.text.String()
	message := &wireOutput{Role: "assistant", Content: &text, Reasoning: a.reasoning.String(), ToolCalls: a.calls}
	a.answer.Object = "chat.completion"
	a.answer.Choices = []wireChoice{{Message: message, LogProbs: logProbs(a.probs), FinishReason: &reason}}
	reply(a.w, http.StatusOK, a.answer)
}

func (a *chatAnswer) report(e wireError) { a.event("", map[string]wireError{"error": e}) }
