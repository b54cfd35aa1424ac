package chatform

import (
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/llm"
)

// Request is a request to a model: its messages, the system message first, and its tools.
type Request struct {
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools"`
}

// Tool is a function that the model may call.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

// RequestOf writes a request in the form of the protocol.
func RequestOf(req *llm.Request) Request {
	out := Request{Messages: Messages(req.Messages), Tools: []Tool{}}
	if req.System != "" {
		out.Messages = slices.Insert(out.Messages, 0, Message{Role: "system", Content: req.System})
	}
	for _, t := range req.Tools {
		c := Tool{Type: "function"}
		c.Function.Name, c.Function.Description, c.Function.Parameters = t.Name, t.Description, t.Parameters
		out.Tools = append(out.Tools, c)
	}
	return out
}

// Settings returns the settings that are set, by the names of the protocol.
func Settings(s llm.Settings) map[string]any {
	out := make(map[string]any)
	set := func(name string, is bool, value any) {
		if is {
			out[name] = value
		}
	}
	set("temperature", s.Temperature != nil, s.Temperature)
	set("top_p", s.TopP != nil, s.TopP)
	set("max_tokens", s.MaxTokens > 0, s.MaxTokens)
	set("stop", len(s.Stop) > 0, s.Stop)
	set("tool_choice", s.ToolChoice != "", s.ToolChoice)
	if !s.ToolChoice.Mode() {
		out["tool_choice"] = map[string]any{"type": "function", "function": map[string]any{"name": s.ToolChoice}}
	}
	set("parallel_tool_calls", s.ParallelToolCalls != nil, s.ParallelToolCalls)
	if f := s.ResponseFormat; f != nil {
		out["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": f.Name, "schema": f.Schema, "strict": f.Strict}}
	}
	set("top_logprobs", s.TopLogProbs > 0, s.TopLogProbs)
	set("seed", s.Seed != nil, s.Seed)
	set("reasoning_effort", s.ReasoningEffort != "", s.ReasoningEffort)
	return out
}
