package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Role says who speaks in a message.
type Role string

// The roles of the chat-completions protocol. The system message at the front is not a Message: it is in
// [Request.System]. RoleSystem is only that of a text at the end, the last message of a request of agents that share
// their requests: the text says which of them answers.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleSystem    Role = "system"
)

// Message is one entry of the conversation that a model reads. Messages of a
// request are shared and must not be changed by a Model.
//
// A user message has text, or parts (text and media). An assistant message has
// text, and [ToolCall] or [Reasoning] parts. A tool message has exactly one
// [ToolResult] part.
type Message struct {
	Role Role
	Content
}

// Content is text, or a list of parts, or (in an assistant message) both.
type Content struct {
	Text  string
	Parts []Part
}

// Part is one piece of a message: [TextPart], [Media], [ToolCall], [ToolResult]
// or [Reasoning]. The set is closed.
type Part interface{ part() }

// TextPart is text beside media in a user message.
type TextPart struct{ Text string }

// MediaKind tells images, and audio that a model is to hear, from any other file.
type MediaKind string

// The kinds of media that a user message can carry.
const (
	MediaImage MediaKind = "image"
	MediaFile  MediaKind = "file"
	MediaAudio MediaKind = "audio"
)

// Media is an image, audio or a file, given either as bytes or as a URL that the
// endpoint can reach. MediaType is a MIME type such as image/png. Name is a
// file's name and optional.
//
// Digest alone stands for a file of the session whose bytes are put in its place before
// a model is asked; a Model never sees it without them.
type Media struct {
	Kind      MediaKind
	MediaType string
	Data      []byte
	URL       string
	Name      string
	Digest    string
}

// ToolCall is a model's wish to have a tool run. Arguments is what the model
// wrote: usually, not certainly, a JSON object.
type ToolCall struct {
	// ID tells the call from the others of its answer. A model may give any, also one that it has
	// given before: the runner names the calls of a conversation itself.
	ID        string
	Name      string
	Arguments string
	// Place is the call's place among all calls of its answer, from 1, where the message leaves some of
	// them out. 0 is its place among those of the message.
	Place int
}

// ToolResult answers the tool call with the same ID.
type ToolResult struct {
	CallID  string
	Name    string
	Output  string
	IsError bool
}

// Reasoning is an assistant's thinking, where an endpoint discloses it. Sealed is what the
// endpoint wants to be given back with it, in a form that only its adapter knows.
type Reasoning struct{ Text, Sealed string }

func (TextPart) part()   {}
func (Media) part()      {}
func (ToolCall) part()   {}
func (ToolResult) part() {}
func (Reasoning) part()  {}

// UserText returns a user message that holds text word for word.
func UserText(text string) Message {
	return Message{Role: RoleUser, Content: Content{Text: text}}
}

// UserParts returns a user message of several parts.
func UserParts(parts ...Part) Message {
	return Message{Role: RoleUser, Content: Content{Parts: parts}}
}

// PlainText returns the text of the content: Text, and the text parts, joined
// by newlines; media are left out.
func (c Content) PlainText() string {
	if len(c.Parts) == 0 {
		return c.Text
	}
	var b strings.Builder
	b.WriteString(c.Text)
	for _, p := range c.Parts {
		if t, ok := p.(TextPart); ok {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

type wirePart struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Data      []byte `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
	Name      string `json:"name,omitempty"`
}

// MarshalJSON writes user content: a string, or an array of text, image and
// file parts. Other parts have no JSON form here and are an error.
func (c Content) MarshalJSON() ([]byte, error) {
	if len(c.Parts) == 0 {
		return encode(c.Text)
	}
	var parts []wirePart
	if c.Text != "" {
		parts = append(parts, wirePart{Type: "text", Text: c.Text})
	}
	for _, p := range c.Parts {
		switch p := p.(type) {
		case TextPart:
			parts = append(parts, wirePart{Type: "text", Text: p.Text})
		case Media:
			parts = append(parts, wirePart{Type: string(p.Kind), MediaType: p.MediaType, Data: p.Data, URL: p.URL, Name: p.Name})
		default:
			return nil, fmt.Errorf("llm: %T is no part of user content", p)
		}
	}
	return encode(parts)
}

// encode writes JSON without HTML escapes: what users say is kept as it is.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = Content{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &c.Text)
	}
	if string(data) == "null" {
		return nil
	}
	var parts []wirePart
	if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("llm: content is neither a string nor a list of parts: %w", err)
	}
	for i, p := range parts {
		switch p.Type {
		case "text":
			c.Parts = append(c.Parts, TextPart{p.Text})
		case string(MediaImage), string(MediaFile), string(MediaAudio):
			c.Parts = append(c.Parts, Media{Kind: MediaKind(p.Type), MediaType: p.MediaType, Data: p.Data, URL: p.URL, Name: p.Name})
		default:
			return fmt.Errorf("llm: content part %d has the unknown type %q", i, p.Type)
		}
	}
	return nil
}
