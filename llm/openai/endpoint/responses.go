package endpoint

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/agentarbor/arbor/llm"
)

// responsesRequest contains the fields of a request of the Responses API that models use.
type responsesRequest struct {
	Model             string          `json:"model"`
	Instructions      string          `json:"instructions"`
	Input             []inputItem     `json:"input"`
	Stream            bool            `json:"stream"`
	Include           []string        `json:"include"`
	Temperature       *float64        `json:"temperature"`
	TopP              *float64        `json:"top_p"`
	MaxOutputTokens   int             `json:"max_output_tokens"`
	TopLogProbs       int             `json:"top_logprobs"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	Reasoning         struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"tools"`
	Text struct {
		Format struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"format"`
	} `json:"text"`
}

type inputItem struct {
	Type      string          `json:"type"`
	Role      llm.Role        `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    string          `json:"output"`
	Encrypted string          `json:"encrypted_content"`
}

func (h *handler) responses(w http.ResponseWriter, r *http.Request) {
	body, ok := h.body(w, r, CheckResponses)
	if !ok {
		return
	}
	var wire responsesRequest
	err := json.Unmarshal(body, &wire)
	var req *llm.Request
	if err == nil {
		req, err = wire.request(h.seal)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, wireError{Message: err.Error(), Type: "invalid_request_error"})
		return
	}
	model, ok := h.model(w, wire.Model)
	if !ok {
		return
	}
	generate(newItems(w, &wire, h.seal, fmt.Sprint(h.answers.Add(1))), model.Generate(r.Context(), req))
}

// request returns the request for a model.
func (wire *responsesRequest) request(s seal) (*llm.Request, error) {
	req := &llm.Request{System: wire.Instructions, Stream: wire.Stream}
	req.Temperature, req.TopP, req.ParallelToolCalls = wire.Temperature, wire.TopP, wire.ParallelToolCalls
	req.MaxTokens, req.TopLogProbs, req.ReasoningEffort = wire.MaxOutputTokens, wire.TopLogProbs, wire.Reasoning.Effort
	for _, t := range wire.Tools {
		req.Tools = append(req.Tools, llm.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	if f := wire.Text.Format; f.Name != "" {
		req.ResponseFormat = &llm.ResponseFormat{Name: f.Name, Schema: f.Schema, Strict: f.Strict}
	}
	if choice := wire.ToolChoice; len(choice) > 0 && choice[0] == '{' {
		var named struct {
			Name  llm.ToolChoice `json:"name"`
			Mode  llm.ToolChoice `json:"mode"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		}
		if err := json.Unmarshal(choice, &named); err != nil {
			return nil, err
		}
		req.ToolChoice = named.Name + named.Mode // at most one of the two is set
		for _, t := range named.Tools {
			req.Allowed = append(req.Allowed, t.Name)
		}
	} else if len(choice) > 0 {
		if err := json.Unmarshal(choice, &req.ToolChoice); err != nil {
			return nil, err
		}
	}
	return req, wire.messages(req, s)
}

// messages joins the items of an answer to one message.
func (wire *responsesRequest) messages(req *llm.Request, s seal) error {
	names := map[string]string{} // the names of the called tools by call id
	var said *llm.Message        // the answer whose items are being read
	assistant := func(more bool) *llm.Message {
		if said == nil || !more {
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant})
			said = &req.Messages[len(req.Messages)-1]
		}
		return said
	}
	for i, item := range wire.Input {
		switch item.Type {
		case "reasoning":
			text, err := s.open(item.Encrypted)
			if err != nil {
				return fmt.Errorf("input[%d].encrypted_content: %w", i, err)
			}
			m := assistant(said != nil && said.Text == "" || said != nil && hasCalls(said))
			m.Parts = append(m.Parts, llm.Reasoning{Text: text})
		case "function_call":
			names[item.CallID] = item.Name
			m := assistant(true)
			m.Parts = append(m.Parts, llm.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
		case "function_call_output":
			said = nil
			res := llm.ToolResult{CallID: item.CallID, Name: names[item.CallID], Output: item.Output}
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{res}}})
		default:
			content, err := item.content()
			switch {
			case err != nil:
				return fmt.Errorf("input[%d].content: %w", i, err)
			case item.Role == llm.RoleAssistant:
				assistant(said != nil && said.Text == "" && !hasCalls(said)).Text = content.Text
			default:
				said = nil
				req.Messages = append(req.Messages, llm.Message{Role: item.Role, Content: content})
			}
		}
	}
	return nil
}

func hasCalls(m *llm.Message) bool {
	for _, p := range m.Parts {
		if _, ok := p.(llm.ToolCall); ok {
			return true
		}
	}
	return false
}

func (i *inputItem) content() (c llm.Content, err error) {
	if i.Content[0] == '"' {
		return c, json.Unmarshal(i.Content, &c.Text)
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL string `json:"image_url"`
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
		FileURL  string `json:"file_url"`
		Audio    struct {
			Data   []byte `json:"data"`
			Format string `json:"format"`
		} `json:"input_audio"`
	}
	if err := json.Unmarshal(i.Content, &parts); err != nil {
		return c, err
	}
	for _, p := range parts {
		part := llm.Part(llm.TextPart{Text: p.Text})
		switch p.Type {
		case "input_image":
			part, err = parseMedia(llm.MediaImage, p.ImageURL)
		case "input_file":
			var m llm.Media
			m, err = parseMedia(llm.MediaFile, p.FileURL+p.FileData)
			m.Name = p.Filename
			part = m
		case "input_audio":
			part = llm.Media{Kind: llm.MediaAudio, MediaType: map[string]string{"wav": "audio/wav", "mp3": "audio/mpeg"}[p.Audio.Format], Data: p.Audio.Data}
		}
		if err != nil {
			return c, err
		}
		c.Parts = append(c.Parts, part)
	}
	return c, nil
}
