package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
)

// writeRequest returns the body of a request.
func (c *client) writeRequest(model string, req *llm.Request, form requestForm) ([]byte, error) {
	w := wireRequest{Model: model, Seed: req.Seed}
	w.ReasoningEffort = form.effort(req)
	w.Stream, w.Stop, w.LogProbs, w.TopLogProbs = req.Stream, req.Stop, req.TopLogProbs > 0, req.TopLogProbs
	if req.Stream && !form.has(quirkNoStreamOptions) {
		w.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	}
	w.Messages = make([]wireMessage, 0, len(req.Messages)+1)
	if req.System != "" {
		w.Messages = append(w.Messages, wireMessage{Role: goopenai.ChatMessageRoleSystem, Content: req.System})
	}
	back := giving{quirks: form.quirks, by: c.sealer(model)}
	if form.has(quirkToolNames) {
		back.names = map[string]string{}
	}
	for i := range req.Messages {
		var err error
		if w.Messages, err = back.appendMessage(w.Messages, &req.Messages[i]); err != nil {
			return nil, c.errorf(llm.CodeBadRequest, err, "message %d of the request cannot be sent: %v", i, err)
		}
	}
	for _, t := range req.Tools {
		w.Tools = append(w.Tools, goopenai.Tool{
			Type:     goopenai.ToolTypeFunction,
			Function: &goopenai.FunctionDefinition{Name: form.toolName(t.Name), Description: t.Description, Parameters: parametersOf(t)},
		})
	}
	if len(req.Tools) > 0 { // endpoints refuse both settings without tools
		named := func(name string) any {
			return goopenai.ToolChoice{Type: goopenai.ToolTypeFunction, Function: goopenai.ToolFunction{Name: form.toolName(name)}}
		}
		w.ToolChoice = toolChoice(req, named, func(a wireAllowed) any {
			return struct {
				Type    string      `json:"type"`
				Allowed wireAllowed `json:"allowed_tools"`
			}{"allowed_tools", a}
		})
		if req.ParallelToolCalls != nil {
			w.ParallelToolCalls = *req.ParallelToolCalls
		}
	}
	if f := req.ResponseFormat; f != nil {
		w.ResponseFormat = &goopenai.ChatCompletionResponseFormat{
			Type:       goopenai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &goopenai.ChatCompletionResponseFormatJSONSchema{Name: cmp.Or(f.Name, "response"), Schema: f.Schema, Strict: f.Strict},
		}
	}
	if (form.has(quirkMaxCompletion) || reasons(model)) && !form.has(quirkMaxTokens) {
		w.MaxCompletionTokens = max(req.MaxTokens, 0)
	} else {
		w.MaxTokens = max(req.MaxTokens, 0)
	}
	var err error
	if w.Temperature, w.TopP, err = c.sampling(req); err != nil {
		return nil, err
	}
	if !form.has(quirkNoCacheKeys) {
		w.ServiceTier = goopenai.ServiceTier(c.tier)
		c.addCacheFields(&w, req.Agent)
	}
	body, err := json.Marshal(&w)
	if err != nil {
		return nil, c.errorf(llm.CodeBadRequest, err, "the request cannot be built: %v", err)
	}
	return form.withThinking(body, req.Thinking), nil
}

// sampling returns the sampling settings for a request in either protocol, "" for those that are not set.
func (c *client) sampling(req *llm.Request) (temperature, topP json.Number, err error) {
	for _, f := range []struct {
		name string
		from *float64
		to   *json.Number
	}{{"temperature", req.Temperature, &temperature}, {"top_p", req.TopP, &topP}} {
		switch {
		case f.from == nil:
		case math.IsNaN(*f.from) || math.IsInf(*f.from, 0):
			return "", "", c.errorf(llm.CodeBadRequest, nil, "%s is %v, which cannot be sent", f.name, *f.from)
		default:
			*f.to = json.Number(strconv.FormatFloat(*f.from, 'f', -1, 64))
		}
	}
	return temperature, topP, nil
}

// checkSchemas returns an error if a schema in a request is not JSON.
func (c *client) checkSchemas(req *llm.Request) error {
	for _, t := range req.Tools {
		if !json.Valid(parametersOf(t)) {
			return c.errorf(llm.CodeBadRequest, nil, "the parameters of tool %q are not JSON", t.Name)
		}
	}
	if f := req.ResponseFormat; f != nil && !json.Valid(f.Schema) {
		return c.errorf(llm.CodeBadRequest, nil, "the schema of the response format %q is not JSON", f.Name)
	}
	return nil
}

// parametersOf returns the schema of a tool's parameters, which endpoints require even without parameters.
func parametersOf(t llm.ToolSpec) json.RawMessage {
	if len(t.Parameters) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Parameters
}

// toolChoice returns the tool choice for an endpoint, or nil for none. named encodes the name of a tool, and allowed
// the tools that may be called.
func toolChoice(req *llm.Request, named func(name string) any, allowed func(wireAllowed) any) any {
	choice := req.ToolChoice
	switch {
	case !choice.Mode():
		return named(string(choice))
	case req.Allowed != nil && len(req.Allowed) == 0:
		return llm.ToolChoiceNone
	case req.Allowed != nil && choice != llm.ToolChoiceNone:
		a := wireAllowed{Mode: cmp.Or(choice, llm.ToolChoiceAuto)}
		for _, name := range req.Allowed {
			a.Tools = append(a.Tools, named(name))
		}
		return allowed(a)
	case choice == "":
		return nil
	}
	return choice
}

// giving encodes the messages of a conversation for an endpoint.
type giving struct {
	quirks
	by    string // the sealer whose sealed data the endpoint reads
	ids   callIDs
	names map[string]string // of the tools, by the ids of the calls in the log; nil if results go without them
}

func (g *giving) appendMessage(list []wireMessage, m *llm.Message) ([]wireMessage, error) {
	switch m.Role {
	case llm.RoleAssistant:
		return g.appendAssistant(list, m), nil
	case llm.RoleTool:
		return appendResults(g, list, m, func(id string, res llm.ToolResult) wireMessage {
			return wireMessage{Role: goopenai.ChatMessageRoleTool, ToolCallID: id, Name: g.names[res.CallID], Content: res.Output}
		})
	}
	parts, err := partsOf(m, textPart, mediaPart)
	if err != nil {
		return nil, err
	}
	out := wireMessage{Role: string(m.Role), Content: m.Text}
	if g.has(quirkString) && !slices.ContainsFunc(parts, func(p wirePart) bool { return p.Type != goopenai.ChatMessagePartTypeText }) {
		out.Content = m.PlainText()
	} else if parts != nil {
		out.Content = parts
	}
	return append(list, out), nil
}

// appendResults appends the results of a tool message. encode returns one of them, with the id of its call in the
// request.
func appendResults[R any](g *giving, list []R, m *llm.Message, encode func(id string, res llm.ToolResult) R) ([]R, error) {
	for _, part := range m.Parts {
		res, ok := part.(llm.ToolResult)
		if !ok {
			return nil, &misplacedError{m.Role, part}
		}
		res.Output = cmp.Or(res.Output, noOutput)
		list = append(list, encode(g.ids.of(res.CallID, ""), res))
	}
	return list, nil
}

// partsOf encodes the parts of a message of the user or the system, nil if it has only a text.
func partsOf[P any](m *llm.Message, text func(string) P, media func(llm.Media) (P, error)) (parts []P, err error) {
	if len(m.Parts) > 0 && m.Text != "" {
		parts = append(parts, text(m.Text))
	}
	for _, part := range m.Parts {
		switch part := part.(type) {
		case llm.TextPart:
			if part.Text != "" { // go-openai leaves out an empty text
				parts = append(parts, text(part.Text))
			}
		case llm.Media:
			p, err := media(part)
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		default:
			return nil, &misplacedError{m.Role, part}
		}
	}
	return parts, nil
}

func (g *giving) appendAssistant(list []wireMessage, m *llm.Message) []wireMessage {
	out := wireMessage{Role: goopenai.ChatMessageRoleAssistant}
	text := m.PlainText()
	var extras map[int]callExtras
	var own []string // the endpoint's ids of the calls
	for _, part := range m.Parts {
		switch part := part.(type) {
		case llm.Reasoning:
			if s := unseal(part.Sealed, g.by); s.By != "" {
				extras, own = s.extras(extras), append(own, s.Calls...)
				text = g.thoughts(&out, &s, part.Text, text)
			}
		case llm.ToolCall:
			at, id := place(part, len(out.ToolCalls)), ""
			if at < len(own) {
				id = own[at]
			}
			x, ok := extras[at]
			c := wireCall{ID: g.ids.of(part.ID, id), Type: goopenai.ToolTypeFunction, Function: wireFunction{Name: g.toolName(wireName(part.Name)), Arguments: wireArguments(part.Arguments)}}
			if ok && !g.has(quirkNoSignatures) {
				c.opaque = x.opaque
				if x.Function != nil {
					c.Function.opaque = *x.Function
				}
			} else if len(extras) == 0 && g.has(quirkSignatures) && !g.has(quirkNoSignatures) {
				c.Extra = json.RawMessage(`{"google":{"thought_signature":"` + signature + `"}}`)
			}
			out.ToolCalls = append(out.ToolCalls, c)
			if g.names != nil {
				g.names[part.ID] = c.Function.Name
			}
		}
	}
	switch {
	case text != "":
		out.Content = text
	case out.ToolCalls == nil:
		return list // only reasoning: no endpoint accepts an empty message
	case g.has(quirkString) && g.has(quirkNoEmpty) && !g.has(quirkWordsApart):
		out.Content = noText
	case g.has(quirkString):
		out.Content = ""
	}
	if g.has(quirkEchoEmpty) && out.ReasoningContent == nil && out.Reasoning == nil && out.ReasoningDetails == nil && out.ThinkingBlocks == nil && (text == m.PlainText() || text == "") {
		out.ReasoningContent = new(string)
	}
	if r := out.ReasoningContent; r != nil && *r == "" && g.has(quirkEchoFilled) {
		*r = "."
	}
	return append(list, out)
}

// audioFormats are the names that endpoints use for the media types of audio.
var audioFormats = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/vnd.wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

func audioOf(m llm.Media) (*wireAudio, error) {
	mediaType, _, _ := strings.Cut(m.MediaType, ";")
	format := audioFormats[strings.ToLower(strings.TrimSpace(mediaType))]
	switch {
	case format == "":
		return nil, fmt.Errorf("audio of the type %q: only audio/wav and audio/mpeg can be sent", m.MediaType)
	case len(m.Data) == 0:
		return nil, errors.New("audio that only its address names: its data has to be sent")
	}
	return &wireAudio{base64.StdEncoding.EncodeToString(m.Data), format}, nil
}

func mediaPart(m llm.Media) (wirePart, error) {
	if m.Kind == llm.MediaAudio {
		audio, err := audioOf(m)
		return wirePart{ChatMessagePart: goopenai.ChatMessagePart{Type: "input_audio"}, Audio: audio}, err
	}
	url := chatform.Address(m)
	if m.Kind == llm.MediaImage {
		return wirePart{ChatMessagePart: goopenai.ChatMessagePart{
			Type: goopenai.ChatMessagePartTypeImageURL, ImageURL: &goopenai.ChatMessageImageURL{URL: url},
		}}, nil
	}
	return wirePart{ChatMessagePart: goopenai.ChatMessagePart{Type: "file"}, File: &wireFile{cmp.Or(m.Name, "file"), url}}, nil
}

// misplacedError is the error for a part that a message of this role cannot contain.
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

// reasons reports whether a name is that of an OpenAI reasoning model.
func reasons(model string) bool {
	if _, name, ok := strings.Cut(model, "/"); ok {
		model = name // of a router's "openai/o3"
	}
	return slices.ContainsFunc([]string{"o1", "o3", "o4", "gpt-5", "gpt-6"}, func(prefix string) bool {
		return strings.HasPrefix(model, prefix)
	})
}
