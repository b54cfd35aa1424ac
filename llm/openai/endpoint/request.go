package endpoint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// wireRequest is a body that has passed CheckBody.
type wireRequest struct {
	Model         string        `json:"model"`
	Messages      []wireMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	Seed                *int64          `json:"seed"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	N                   int             `json:"n"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	LogProbs            bool            `json:"logprobs"`
	TopLogProbs         int             `json:"top_logprobs"`
	Stop                json.RawMessage `json:"stop"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	Tools               []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ResponseFormat struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"json_schema"`
	} `json:"response_format"`
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

type wirePart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File struct {
		Data string `json:"file_data"`
		Name string `json:"filename"`
	} `json:"file"`
	Audio struct {
		Data   []byte `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

// parseRequest turns a checked body into what a model sees.
func parseRequest(body []byte) (*wireRequest, *llm.Request, error) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, nil, err
	}
	if w.N > 1 {
		return nil, nil, fmt.Errorf("n is %d; this endpoint gives one answer", w.N)
	}
	req := &llm.Request{Stream: w.Stream}
	req.Temperature, req.TopP, req.ParallelToolCalls = w.Temperature, w.TopP, w.ParallelToolCalls
	req.Seed, req.ReasoningEffort = w.Seed, w.ReasoningEffort
	req.MaxTokens = max(w.MaxTokens, w.MaxCompletionTokens)
	if w.LogProbs {
		req.TopLogProbs = max(w.TopLogProbs, 1) // the token's own is always there
	}
	names := map[string]string{} // of the tools called, by call id
	for i, m := range w.Messages {
		content, err := m.content()
		if err != nil {
			return nil, nil, fmt.Errorf("messages[%d].content: %w", i, err)
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
	for _, t := range w.Tools {
		req.Tools = append(req.Tools, llm.ToolSpec{
			Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters,
		})
	}
	if f := w.ResponseFormat; f.Type == "json_schema" {
		req.ResponseFormat = &llm.ResponseFormat{Name: f.JSONSchema.Name, Schema: f.JSONSchema.Schema, Strict: f.JSONSchema.Strict}
	} else if f.Type == "json_object" {
		return nil, nil, fmt.Errorf("response_format json_object is not served here; use json_schema")
	}
	if err := w.choices(req); err != nil {
		return nil, nil, err
	}
	return &w, req, nil
}

// choices reads the two parameters that have two forms each.
func (w *wireRequest) choices(req *llm.Request) error {
	if len(w.Stop) > 0 && w.Stop[0] == '"' {
		req.Stop = []string{""}
		if err := json.Unmarshal(w.Stop, &req.Stop[0]); err != nil {
			return err
		}
	} else if len(w.Stop) > 0 {
		if err := json.Unmarshal(w.Stop, &req.Stop); err != nil {
			return err
		}
	}
	if len(w.ToolChoice) > 0 && w.ToolChoice[0] == '"' {
		return json.Unmarshal(w.ToolChoice, &req.ToolChoice)
	}
	if len(w.ToolChoice) > 0 {
		var c struct {
			Allowed *struct {
				Mode  llm.ToolChoice `json:"mode"`
				Tools []struct {
					Function struct {
						Name string `json:"name"`
					} `json:"function"`
				} `json:"tools"`
			} `json:"allowed_tools"`
			Function struct {
				Name llm.ToolChoice `json:"name"`
			} `json:"function"`
		}
		if err := json.Unmarshal(w.ToolChoice, &c); err != nil {
			return err
		}
		if req.ToolChoice = c.Function.Name; c.Allowed != nil {
			req.ToolChoice = c.Allowed.Mode
			for _, t := range c.Allowed.Tools {
				req.Allowed = append(req.Allowed, t.Function.Name)
			}
		}
	}
	return nil
}

func (m *wireMessage) content() (llm.Content, error) {
	var c llm.Content
	switch {
	case len(m.Content) == 0 || string(m.Content) == "null":
		return c, nil
	case m.Content[0] == '"':
		err := json.Unmarshal(m.Content, &c.Text)
		return c, err
	}
	var parts []wirePart
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return c, err
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			c.Parts = append(c.Parts, llm.TextPart{Text: p.Text})
		case "refusal":
			c.Parts = append(c.Parts, llm.TextPart{Text: p.Refusal})
		case "image_url":
			media, err := parseMedia(llm.MediaImage, p.ImageURL.URL)
			if err != nil {
				return c, err
			}
			c.Parts = append(c.Parts, media)
		case "file":
			if p.File.Data == "" {
				return c, fmt.Errorf("file_id names a file that this endpoint does not have; send file_data")
			}
			media, err := parseMedia(llm.MediaFile, p.File.Data)
			if err != nil {
				return c, err
			}
			media.Name = p.File.Name
			c.Parts = append(c.Parts, media)
		case "input_audio":
			c.Parts = append(c.Parts, llm.Media{Kind: llm.MediaAudio, MediaType: map[string]string{"wav": "audio/wav", "mp3": "audio/mpeg"}[p.Audio.Format], Data: p.Audio.Data})
		default:
			return c, fmt.Errorf("parts of type %q are not served here", p.Type)
		}
	}
	return c, nil
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
