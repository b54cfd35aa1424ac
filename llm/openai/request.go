package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/llm"
)

// buildRequest turns a request into the library's, and what the library cannot
// express into a patch that the transport applies to the body.
func (c *client) buildRequest(model string, req *llm.Request) (goopenai.ChatCompletionRequest, *patch, error) {
	p := &patch{model: model, nonce: c.nonce}
	r := goopenai.ChatCompletionRequest{Model: stubModel, Stream: req.Stream, Stop: req.Stop, LogProbs: req.TopLogProbs > 0, TopLogProbs: req.TopLogProbs}
	if req.Stream {
		r.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	}
	r.Messages = make([]goopenai.ChatCompletionMessage, 0, len(req.Messages)+1)
	if req.System != "" {
		r.Messages = append(r.Messages, goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleSystem, Content: req.System})
	}
	for i := range req.Messages {
		var err error
		if r.Messages, err = c.appendMessage(r.Messages, &req.Messages[i], p); err != nil {
			return r, nil, c.errorf(llm.CodeBadRequest, err, "message %d of the request cannot be sent: %v", i, err)
		}
	}
	for _, t := range req.Tools {
		params := t.Parameters
		if len(params) == 0 {
			params = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if !json.Valid(params) {
			return r, nil, c.errorf(llm.CodeBadRequest, nil, "the parameters of tool %q are no JSON", t.Name)
		}
		r.Tools = append(r.Tools, goopenai.Tool{
			Type:     goopenai.ToolTypeFunction,
			Function: &goopenai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: params},
		})
	}
	if len(req.Tools) > 0 { // endpoints refuse both settings without tools
		switch req.ToolChoice {
		case "":
		case llm.ToolChoiceAuto, llm.ToolChoiceNone, llm.ToolChoiceRequired:
			r.ToolChoice = string(req.ToolChoice)
		default:
			r.ToolChoice = goopenai.ToolChoice{
				Type: goopenai.ToolTypeFunction, Function: goopenai.ToolFunction{Name: string(req.ToolChoice)},
			}
		}
		if req.ParallelToolCalls != nil {
			r.ParallelToolCalls = *req.ParallelToolCalls
		}
	}
	if f := req.ResponseFormat; f != nil {
		if !json.Valid(f.Schema) {
			return r, nil, c.errorf(llm.CodeBadRequest, nil, "the schema of the response format %q is no JSON", f.Name)
		}
		name := f.Name
		if name == "" {
			name = "response"
		}
		r.ResponseFormat = &goopenai.ChatCompletionResponseFormat{
			Type:       goopenai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &goopenai.ChatCompletionResponseFormatJSONSchema{Name: name, Schema: f.Schema, Strict: f.Strict},
		}
	}
	if err := p.settings(&req.Settings, maxTokensField(model, c.official)); err != nil {
		return r, nil, c.errorf(llm.CodeBadRequest, err, "%v", err)
	}
	c.caches(p, req.Agent)
	return r, p, nil
}

func (c *client) appendMessage(list []goopenai.ChatCompletionMessage, m *llm.Message, p *patch) ([]goopenai.ChatCompletionMessage, error) {
	switch m.Role {
	case llm.RoleAssistant:
		return c.appendAssistant(list, m, p), nil
	case llm.RoleTool:
		for _, part := range m.Parts {
			res, ok := part.(llm.ToolResult)
			if !ok {
				return nil, &misplacedError{m.Role, part}
			}
			out := goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleTool, ToolCallID: wireID(res.CallID), Content: res.Output}
			if out.Content == "" {
				out.Content = p.placeholder("content", []byte(`""`))
			}
			list = append(list, out)
		}
		return list, nil
	}
	out := goopenai.ChatCompletionMessage{Role: string(m.Role)}
	if len(m.Parts) > 0 && m.Text != "" {
		out.MultiContent = append(out.MultiContent, goopenai.ChatMessagePart{Type: goopenai.ChatMessagePartTypeText, Text: m.Text})
	}
	for _, part := range m.Parts {
		switch part := part.(type) {
		case llm.TextPart:
			if part.Text != "" { // the library would leave the text out
				out.MultiContent = append(out.MultiContent, goopenai.ChatMessagePart{Type: goopenai.ChatMessagePartTypeText, Text: part.Text})
			}
		case llm.Media:
			out.MultiContent = append(out.MultiContent, mediaPart(part, p))
		default:
			return nil, &misplacedError{m.Role, part}
		}
	}
	if len(out.MultiContent) == 0 {
		out.MultiContent = nil
		if out.Content = m.Text; out.Content == "" {
			out.Content = p.placeholder("content", []byte(`""`))
		}
	}
	return append(list, out), nil
}

func (c *client) appendAssistant(list []goopenai.ChatCompletionMessage, m *llm.Message, p *patch) []goopenai.ChatCompletionMessage {
	out := goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleAssistant, Content: m.PlainText()}
	var reasoning strings.Builder
	for _, part := range m.Parts {
		switch part := part.(type) {
		case llm.Reasoning:
			if c.echo {
				reasoning.WriteString(part.Text)
			}
		case llm.ToolCall:
			out.ToolCalls = append(out.ToolCalls, goopenai.ToolCall{
				ID:       wireID(part.ID),
				Type:     goopenai.ToolTypeFunction,
				Function: goopenai.FunctionCall{Name: wireName(part.Name), Arguments: wireArguments(part.Arguments)},
			})
		}
	}
	out.ReasoningContent = reasoning.String()
	if out.Content == "" {
		if out.ToolCalls == nil {
			return list // nothing but reasoning: no endpoint takes an empty message
		}
		out.Content = p.placeholder("content", []byte("null"))
	}
	return append(list, out)
}

func mediaPart(m llm.Media, p *patch) goopenai.ChatMessagePart {
	url := m.URL
	if url == "" {
		mediaType := m.MediaType
		if mediaType == "" {
			mediaType = "application/octet-stream"
		}
		url = "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
	}
	if m.Kind == llm.MediaImage {
		return goopenai.ChatMessagePart{
			Type: goopenai.ChatMessagePartTypeImageURL, ImageURL: &goopenai.ChatMessageImageURL{URL: url},
		}
	}
	name := m.Name
	if name == "" {
		name = "file"
	}
	// Two strings cannot fail to encode.
	file, _ := json.Marshal(struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
	}{name, url})
	return goopenai.ChatMessagePart{Type: "file", Text: p.placeholderAs("text", "file", file)}
}

// misplacedError is a part that has no place in a message of this role.
type misplacedError struct {
	role llm.Role
	part llm.Part
}

func (e *misplacedError) Error() string {
	kind := "part"
	switch e.part.(type) {
	case llm.TextPart:
		kind = "text part"
	case llm.Media:
		kind = "media part"
	case llm.ToolCall:
		kind = "tool call"
	case llm.ToolResult:
		kind = "tool result"
	case llm.Reasoning:
		kind = "reasoning part"
	}
	return "a message of role " + string(e.role) + " cannot hold a " + kind
}

// maxTokensField is the name under which the endpoint takes the limit of output
// tokens: OpenAI has renamed it, and its newer models refuse the old name; most
// other endpoints know only the old one.
func maxTokensField(model string, official bool) string {
	if _, name, ok := strings.Cut(model, "/"); ok {
		model = name // of a router's "openai/o3"
	}
	for _, prefix := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if official || strings.HasPrefix(model, prefix) {
			return "max_completion_tokens"
		}
	}
	return "max_tokens"
}
