package openai

import (
	"cmp"
	"encoding/json"

	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
)

const (
	chatPath      = "/chat/completions"
	responsesPath = "/responses"

	minOutputTokens = 16 // endpoints refuse less
)

func (c *client) path() string {
	if c.responses {
		return responsesPath
	}
	return chatPath
}

func (c *client) protocol() string {
	if c.responses {
		return "the Responses API"
	}
	return "the chat-completions protocol"
}

// The body of a request of the Responses API.
type (
	responsesRequest struct {
		Model             string          `json:"model"`
		Instructions      string          `json:"instructions,omitempty"`
		Input             []any           `json:"input"`
		Stream            bool            `json:"stream"`
		Store             bool            `json:"store"` // the default is true
		Include           []string        `json:"include,omitempty"`
		Tools             []responsesTool `json:"tools,omitempty"`
		ToolChoice        any             `json:"tool_choice,omitempty"`
		ParallelToolCalls *bool           `json:"parallel_tool_calls,omitempty"`
		Temperature       json.Number     `json:"temperature,omitempty"`
		TopP              json.Number     `json:"top_p,omitempty"`
		MaxOutputTokens   int             `json:"max_output_tokens,omitempty"`
		TopLogProbs       int             `json:"top_logprobs,omitempty"`
		Text              *responsesText  `json:"text,omitempty"`
		Reasoning         *responsesThink `json:"reasoning,omitempty"`
		ServiceTier       string          `json:"service_tier,omitempty"`
		PromptCacheKey    string          `json:"prompt_cache_key,omitempty"`
	}
	responsesTool struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
		Strict      *bool           `json:"strict,omitempty"` // the default is true
	}
	responsesText struct {
		Format responsesFormat `json:"format"`
	}
	responsesFormat struct {
		Type   string          `json:"type"`
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	}
	responsesThink struct {
		Effort  string `json:"effort,omitempty"`
		Summary string `json:"summary,omitempty"`
	}
	// inputItem is a message, a call or the output of one.
	inputItem struct {
		Type      string `json:"type,omitempty"`
		Role      string `json:"role,omitempty"`
		Content   any    `json:"content,omitempty"` // a string, which may be empty, or []responsesPart
		CallID    string `json:"call_id,omitempty"`
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
		Output    string `json:"output,omitempty"`
	}
	responsesPart struct {
		Type     string     `json:"type"`
		Text     string     `json:"text,omitempty"`
		ImageURL string     `json:"image_url,omitempty"`
		Filename string     `json:"filename,omitempty"`
		FileData string     `json:"file_data,omitempty"`
		FileURL  string     `json:"file_url,omitempty"`
		Audio    *wireAudio `json:"input_audio,omitempty"`
	}
)

// writeResponses returns the body of a request of the Responses API.
func (c *client) writeResponses(model string, req *llm.Request, form requestForm) ([]byte, error) {
	w := responsesRequest{Model: model, Instructions: req.System, Stream: req.Stream, Input: make([]any, 0, len(req.Messages))}
	if !form.has(quirkNoCacheKeys) {
		w.ServiceTier, w.PromptCacheKey = c.tier, c.promptCacheKey(req.Agent)
	}
	if req.MaxTokens > 0 {
		w.MaxOutputTokens = max(req.MaxTokens, minOutputTokens)
	}
	if len(req.Stop) > 0 {
		return nil, c.errorf(llm.CodeBadRequest, nil, "the Responses API has no stop strings: leave them out of the settings")
	}
	back := giving{quirks: form.quirks, by: c.sealer(model)}
	for i := range req.Messages {
		var err error
		if w.Input, err = back.appendInput(w.Input, &req.Messages[i]); err != nil {
			return nil, c.errorf(llm.CodeBadRequest, err, "message %d of the request cannot be sent: %v", i, err)
		}
	}
	if len(req.Tools) > 0 {
		responsesTools(&w, req, form)
	}
	if f := req.ResponseFormat; f != nil {
		w.Text = &responsesText{responsesFormat{"json_schema", cmp.Or(f.Name, "response"), f.Schema, f.Strict}}
	}
	effort := form.effort(req)
	if thinks := reasons(model) || effort != ""; (thinks || form.has(quirkEcho)) && !form.has(quirkNoThinking) {
		w.Include = append(w.Include, "reasoning.encrypted_content") // models that do not reason refuse it
		if w.Reasoning = (&responsesThink{Effort: effort}); form.has(quirkEcho) {
			w.Reasoning.Summary = "auto"
		}
		if *w.Reasoning == (responsesThink{}) {
			w.Reasoning = nil
		}
	}
	if req.TopLogProbs > 0 {
		w.TopLogProbs, w.Include = req.TopLogProbs, append(w.Include, "message.output_text.logprobs")
	}
	var err error
	if w.Temperature, w.TopP, err = c.sampling(req); err != nil {
		return nil, err
	}
	body, err := json.Marshal(&w)
	if err != nil {
		return nil, c.errorf(llm.CodeBadRequest, err, "the request cannot be built: %v", err)
	}
	return body, nil
}

func responsesTools(w *responsesRequest, req *llm.Request, form requestForm) {
	no := false
	for _, t := range req.Tools {
		w.Tools = append(w.Tools, responsesTool{"function", form.toolName(t.Name), t.Description, parametersOf(t), &no})
	}
	w.ParallelToolCalls = req.ParallelToolCalls
	w.ToolChoice = toolChoice(req, func(name string) any { return responsesTool{Type: "function", Name: form.toolName(name)} }, func(a wireAllowed) any {
		return struct {
			Type string `json:"type"`
			wireAllowed
		}{"allowed_tools", a}
	})
}

// appendInput appends a message as items.
func (g *giving) appendInput(list []any, m *llm.Message) ([]any, error) {
	switch m.Role {
	case llm.RoleAssistant:
		return g.appendSaid(list, m), nil
	case llm.RoleTool:
		return appendResults(g, list, m, func(id string, res llm.ToolResult) any {
			return inputItem{Type: "function_call_output", CallID: id, Output: res.Output}
		})
	}
	if len(m.Parts) == 0 {
		return append(list, inputItem{Role: string(m.Role), Content: m.Text}), nil
	}
	parts, err := partsOf(m, func(text string) responsesPart { return responsesPart{Type: "input_text", Text: text} }, inputMedia)
	return append(list, inputItem{Role: string(m.Role), Content: parts}), err
}

func inputMedia(m llm.Media) (responsesPart, error) {
	switch {
	case m.Kind == llm.MediaAudio:
		audio, err := audioOf(m)
		return responsesPart{Type: "input_audio", Audio: audio}, err
	case m.Kind == llm.MediaImage:
		return responsesPart{Type: "input_image", ImageURL: chatform.Address(m)}, nil
	case m.URL != "":
		return responsesPart{Type: "input_file", FileURL: m.URL}, nil
	}
	return responsesPart{Type: "input_file", Filename: cmp.Or(m.Name, "file"), FileData: chatform.Address(m)}, nil
}

// appendSaid appends the text and calls of the assistant, with each reasoning item before the item to which it led.
func (g *giving) appendSaid(list []any, m *llm.Message) []any {
	var said []any
	var places []int // the indices of the calls in it
	var thought sealed
	if text := m.PlainText(); g.has(quirkItemTypes) && text != "" { // vLLM refuses this form
		said = append(said, inputItem{Type: messageItem, Role: "assistant", Content: []responsesPart{{Type: "output_text", Text: text}}})
	} else if text != "" {
		said = append(said, inputItem{Role: "assistant", Content: text})
	}
	calls := len(said)
	for _, part := range m.Parts {
		switch part := part.(type) {
		case llm.Reasoning:
			s := unseal(part.Sealed, g.by)
			thought.Items, thought.Calls = append(thought.Items, s.Items...), append(thought.Calls, s.Calls...)
		case llm.ToolCall:
			at, own := place(part, len(places)), ""
			if at < len(thought.Calls) {
				own = thought.Calls[at]
			}
			places = append(places, at)
			said = append(said, inputItem{Type: callItem, CallID: g.ids.of(part.ID, own), Name: g.toolName(wireName(part.Name)), Arguments: wireArguments(part.Arguments)})
		}
	}
	if len(places) == 0 || g.has(quirkNoEcho) {
		thought.Items = nil // without calls no endpoint needs them
	}
	for i, item := range said {
		for _, t := range thought.Items {
			if at := t.Call; at < 0 && i == 0 || at >= 0 && i >= calls && places[i-calls] == at {
				list = append(list, g.reasoningItem(t.Item))
			}
		}
		list = append(list, item)
	}
	return list
}

// reasoningItem returns a reasoning item in the form that the endpoint accepts.
func (g *giving) reasoningItem(item json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if !g.has(quirkNoSignatures) || json.Unmarshal(item, &fields) != nil {
		return item
	}
	delete(fields, "id")
	item, _ = json.Marshal(fields) // it was decoded from JSON
	return item
}
