package endpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
)

// wireRequest is a body of either protocol that has passed its check.
type wireRequest struct {
	Model             string          `json:"model"`
	Stream            bool            `json:"stream"`
	Temperature       *float64        `json:"temperature"`
	TopP              *float64        `json:"top_p"`
	TopLogProbs       int             `json:"top_logprobs"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	Tools             []wireTool      `json:"tools"`

	// chat completions
	Messages      []json.RawMessage `json:"messages"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Seed                *int64          `json:"seed"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	N                   int             `json:"n"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	LogProbs            bool            `json:"logprobs"`
	Stop                json.RawMessage `json:"stop"`
	ResponseFormat      struct {
		Type       string     `json:"type"`
		JSONSchema wireFormat `json:"json_schema"`
	} `json:"response_format"`

	// the Responses API
	Instructions    string      `json:"instructions"`
	Input           []inputItem `json:"input"`
	Include         []string    `json:"include"`
	MaxOutputTokens int         `json:"max_output_tokens"`
	Reasoning       struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	Text struct {
		Format wireFormat `json:"format"`
	} `json:"text"`
}

// wireTool is a tool, or the choice of one. In chat completions its members are those of its function.
type wireTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
	Function    *wireTool       `json:"function"`
}

func (t *wireTool) function() *wireTool {
	if t.Function != nil {
		return t.Function
	}
	return t
}

type wireFormat struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

// base returns what a model sees of the members that the protocols share.
func (w *wireRequest) base(format wireFormat) (*llm.Request, error) {
	req := &llm.Request{Stream: w.Stream}
	req.Temperature, req.TopP, req.ParallelToolCalls = w.Temperature, w.TopP, w.ParallelToolCalls
	for _, t := range w.Tools {
		f := t.function()
		req.Tools = append(req.Tools, llm.ToolSpec{Name: f.Name, Description: f.Description, Parameters: f.Parameters})
	}
	if format.Name != "" {
		req.ResponseFormat = &llm.ResponseFormat{Name: format.Name, Schema: format.Schema, Strict: format.Strict}
	}
	if len(w.ToolChoice) == 0 || w.ToolChoice[0] == '"' {
		return req, optional(w.ToolChoice, &req.ToolChoice)
	}
	type some struct {
		Mode  llm.ToolChoice `json:"mode"`
		Tools []wireTool     `json:"tools"`
	}
	var choice struct {
		wireTool
		some
		Allowed *some `json:"allowed_tools"` // in chat completions
	}
	if err := json.Unmarshal(w.ToolChoice, &choice); err != nil {
		return nil, err
	}
	if choice.Allowed != nil {
		choice.some = *choice.Allowed
	}
	if req.ToolChoice = choice.Mode; choice.Mode == "" {
		req.ToolChoice = llm.ToolChoice(choice.function().Name)
	}
	for _, t := range choice.Tools {
		req.Allowed = append(req.Allowed, t.function().Name)
	}
	return req, nil
}

// optional decodes a member that may be missing.
func optional(raw json.RawMessage, v any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, v)
}

// chat returns what a model sees of a request of chat completions.
func (w *wireRequest) chat() (*llm.Request, error) {
	if w.N > 1 {
		return nil, fmt.Errorf("n is %d; this endpoint gives one answer", w.N)
	}
	var format wireFormat
	switch w.ResponseFormat.Type {
	case "json_schema":
		format = w.ResponseFormat.JSONSchema
	case "json_object":
		return nil, fmt.Errorf("response_format json_object is not served here; use json_schema")
	}
	req, err := w.base(format)
	if err != nil {
		return nil, err
	}
	req.Seed, req.ReasoningEffort = w.Seed, w.ReasoningEffort
	req.MaxTokens = max(w.MaxTokens, w.MaxCompletionTokens)
	if w.LogProbs {
		req.TopLogProbs = max(w.TopLogProbs, 1) // the token's own is always there
	}
	if len(w.Stop) > 0 && w.Stop[0] == '"' {
		w.Stop = fmt.Appendf(nil, "[%s]", w.Stop)
	}
	if err := optional(w.Stop, &req.Stop); err != nil {
		return nil, err
	}
	names := map[string]string{} // of the tools called, by call id
	for i, raw := range w.Messages {
		var has struct {
			Content   json.RawMessage `json:"content"`
			Reasoning string          `json:"reasoning_content"`
		}
		m, err := chatform.ReadMessage(raw)
		if err = cmp.Or(err, json.Unmarshal(raw, &has)); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		if m.Role == "" {
			m.Role = llm.RoleSystem
			m.Content, _ = chatform.ReadContent(has.Content) // which has been read
		}
		if m.Role == llm.RoleSystem && i == 0 {
			req.System = m.PlainText()
			continue
		}
		if has.Reasoning != "" {
			m.Parts = slices.Insert(m.Parts, 0, llm.Part(llm.Reasoning{Text: has.Reasoning}))
		}
		for j, part := range m.Parts {
			switch part := part.(type) {
			case llm.ToolCall:
				names[part.ID] = part.Name
			case llm.ToolResult:
				part.Name = names[part.CallID]
				m.Parts[j] = part
			}
		}
		req.Messages = append(req.Messages, m)
	}
	return req, nil
}
