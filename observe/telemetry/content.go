package telemetry

import (
	"encoding/json"

	"github.com/agentarbor/arbor/llm"
)

// message and part are the JSON forms of messages in the conventions: gen-ai-input-messages.json and
// gen-ai-output-messages.json, next to the pages that convention.go names.
type message struct {
	Role   string  `json:"role"`
	Parts  []part  `json:"parts"`
	Finish *string `json:"finish_reason,omitempty"` // of answers only
}

type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
	MimeType  string          `json:"mime_type,omitempty"`
	Modality  string          `json:"modality,omitempty"`
	URI       string          `json:"uri,omitempty"`
	Bytes     int             `json:"bytes,omitempty"`
}

func messagesJSON(messages ...llm.Message) string {
	all := make([]message, 0, len(messages))
	for _, m := range messages {
		out := message{Role: string(m.Role), Parts: make([]part, 0, len(m.Parts)+1)}
		if m.Text != "" {
			out.Parts = append(out.Parts, part{Type: "text", Content: m.Text})
		}
		for _, p := range m.Parts {
			out.Parts = append(out.Parts, partOf(p))
		}
		all = append(all, out)
	}
	return encode(all)
}

func partOf(p llm.Part) part {
	switch p := p.(type) {
	case llm.TextPart:
		return part{Type: "text", Content: p.Text}
	case llm.Reasoning:
		return part{Type: "reasoning", Content: p.Text}
	case llm.ToolCall:
		return part{Type: "tool_call", ID: p.ID, Name: p.Name, Arguments: object(p.Arguments)}
	case llm.ToolResult:
		return part{Type: "tool_call_response", ID: p.CallID, Name: p.Name, Response: object(p.Output)}
	case llm.Media:
		if len(p.Data) > 0 { // not the part of the conventions, which contains the bytes
			return part{Type: "media", Modality: string(p.Kind), MimeType: p.MediaType, Name: p.Name, Bytes: len(p.Data)}
		}
		return part{Type: "uri", Modality: string(p.Kind), MimeType: p.MediaType, URI: p.URL}
	}
	return part{Type: "unknown"}
}

// object returns a text that is JSON unchanged, and any other text as a JSON string.
func object(s string) json.RawMessage {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return json.RawMessage(encode(s))
}

func systemJSON(text string) string { return encode([]part{{Type: "text", Content: text}}) }

// answerJSON returns the text of an answer as the only output message.
func answerJSON(text, finish string) string {
	return encode([]message{{Role: string(llm.RoleAssistant), Parts: []part{{Type: "text", Content: text}}, Finish: &finish}})
}

// json returns the model's output as the only output message.
func (s *output) json(finish string) string {
	m := message{Role: string(llm.RoleAssistant), Parts: make([]part, 0, len(s.calls)+2), Finish: &finish}
	if s.reasoning.Len() > 0 {
		m.Parts = append(m.Parts, part{Type: "reasoning", Content: s.reasoning.String()})
	}
	if s.text.Len() > 0 {
		m.Parts = append(m.Parts, part{Type: "text", Content: s.text.String()})
	}
	for _, c := range s.calls {
		m.Parts = append(m.Parts, partOf(c))
	}
	return encode([]message{m})
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "" // no value of this file's types fails
	}
	return string(data)
}
