package endpoint

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"

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
		Index    *int   `json:"index,omitempty"`
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
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

func toolCall(c *llm.ToolCall, index *int) wireCall {
	w := wireCall{Index: index, ID: c.ID, Type: "function"}
	w.Function.Name, w.Function.Arguments = c.Name, c.Arguments
	return w
}

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

// stream writes an answer as server-sent events. It sends nothing before the first chunk, so that an early error can
// still set the status.
type stream struct {
	w       http.ResponseWriter
	answer  wireAnswer
	usage   bool // the client asked for a usage event
	started bool
	calls   int
	buf     bytes.Buffer
	enc     *json.Encoder
}

func newStream(w http.ResponseWriter, answer wireAnswer, usage bool) *stream {
	s := &stream{w: w, answer: answer, usage: usage}
	s.answer.Object = "chat.completion.chunk"
	s.enc = json.NewEncoder(&s.buf)
	s.enc.SetEscapeHTML(false)
	return s
}

// start sends the headers of an answer.
func (s *stream) start() error {
	if s.started {
		return nil
	}
	s.started = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-cache")
	s.w.WriteHeader(http.StatusOK)
	return http.NewResponseController(s.w).Flush()
}

func (s *stream) event(v any) error {
	if err := s.start(); err != nil {
		return err
	}
	s.buf.Reset()
	s.buf.WriteString("data: ")
	if err := s.enc.Encode(v); err != nil {
		return err
	}
	s.buf.WriteByte('\n')
	return s.send()
}

func (s *stream) send() error {
	if _, err := s.w.Write(s.buf.Bytes()); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// raw sends text unchanged, including invalid events.
func (s *stream) raw(text string) error {
	if err := s.start(); err != nil {
		return err
	}
	s.buf.Reset()
	s.buf.WriteString(text)
	return s.send()
}

func (s *stream) chunk(c llm.Chunk) error {
	if c.Model != "" {
		s.answer.Model = c.Model
	}
	delta := &wireOutput{Reasoning: c.Reasoning}
	if !s.started {
		delta.Role = "assistant"
	}
	if c.Text != "" {
		delta.Content = &c.Text
	}
	if c.Call != nil {
		index := s.calls
		s.calls++
		delta.ToolCalls = []wireCall{toolCall(c.Call, &index)}
	}
	answer := s.answer
	if delta.Role != "" || c.Text != "" || c.Reasoning != "" || c.Call != nil || len(c.LogProbs) > 0 {
		answer.Choices = []wireChoice{{Delta: delta, LogProbs: logProbs(c.LogProbs)}}
		if err := s.event(answer); err != nil {
			return err
		}
	}
	if c.Finish != "" {
		answer.Choices = []wireChoice{{Delta: &wireOutput{}, FinishReason: &c.Finish}}
		if err := s.event(answer); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) done(u *llm.Usage) error {
	if u != nil && s.usage {
		answer := s.answer
		answer.Choices, answer.Usage = []wireChoice{}, usage(u)
		if err := s.event(answer); err != nil {
			return err
		}
	}
	return s.raw("data: [DONE]\n\n")
}
