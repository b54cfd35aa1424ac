package endpoint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

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
	Messages      []wireMessage `json:"messages"`
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

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  string          `json:"reasoning_content"`
	Refusal    string          `json:"refusal"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// wirePart is a part of a message. A file of the Responses API has the members of the part itself.
type wirePart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"`
	wireFile
	File  wireFile `json:"file"`
	Audio struct {
		Data   []byte `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

type wireFile struct {
	Data string `json:"file_data"`
	URL  string `json:"file_url"`
	Name string `json:"filename"`
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
	for i, m := range w.Messages {
		content, err := contentOf(m.Content)
		if err != nil {
			return nil, fmt.Errorf("messages[%d].content: %w", i, err)
		}
		switch m.Role {
		case "system":
			if i > 0 {
				req.Messages = append(req.Messages, llm.Message{Role: llm.RoleSystem, Content: content})
				continue
			}
			req.System = content.PlainText()
		case "user":
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Content: content})
		case "assistant":
			content = llm.Content{Text: content.PlainText() + m.Refusal}
			if m.Reasoning != "" {
				content.Parts = append(content.Parts, llm.Reasoning{Text: m.Reasoning})
			}
			for _, c := range m.ToolCalls {
				names[c.ID] = c.Function.Name
				content.Parts = append(content.Parts, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
			}
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Content: content})
		case "tool":
			res := llm.ToolResult{CallID: m.ToolCallID, Name: names[m.ToolCallID], Output: content.PlainText()}
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{res}}})
		}
	}
	return req, nil
}

// contentOf reads the content of a message: a text, or parts.
func contentOf(raw json.RawMessage) (c llm.Content, err error) {
	var parts []wirePart
	if len(raw) > 0 && raw[0] == '[' {
		err = json.Unmarshal(raw, &parts)
	} else {
		err = optional(raw, &c.Text)
	}
	for _, p := range parts {
		var part llm.Part
		switch p.Type {
		case "text", "input_text":
			part = llm.TextPart{Text: p.Text}
		case "refusal":
			part = llm.TextPart{Text: p.Refusal}
		case "image_url":
			var image struct {
				URL string `json:"url"`
			}
			if err = json.Unmarshal(p.ImageURL, &image); err == nil {
				part, err = parseMedia(llm.MediaImage, image.URL)
			}
		case "input_image":
			var url string
			if err = json.Unmarshal(p.ImageURL, &url); err == nil {
				part, err = parseMedia(llm.MediaImage, url)
			}
		case "file", "input_file":
			if p.Type == "file" {
				p.wireFile = p.File
			}
			if p.Data+p.URL == "" {
				return c, fmt.Errorf("file_id names a file that this endpoint does not have; send file_data")
			}
			var media llm.Media
			media, err = parseMedia(llm.MediaFile, p.URL+p.Data)
			media.Name = p.Name
			part = media
		case "input_audio":
			part = llm.Media{Kind: llm.MediaAudio, MediaType: map[string]string{"wav": "audio/wav", "mp3": "audio/mpeg"}[p.Audio.Format], Data: p.Audio.Data}
		}
		if err != nil {
			break
		}
		c.Parts = append(c.Parts, part)
	}
	return c, err
}

// parseMedia reads a web address or a base64 data URL.
func parseMedia(kind llm.MediaKind, url string) (llm.Media, error) {
	head, data, isData := strings.Cut(url, ";base64,")
	mediaType, hasType := strings.CutPrefix(head, "data:")
	if !isData || !hasType {
		return llm.Media{Kind: kind, URL: url}, nil
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return llm.Media{}, fmt.Errorf("the data URL holds no base64: %w", err)
	}
	return llm.Media{Kind: kind, MediaType: mediaType, Data: raw}, nil
}
