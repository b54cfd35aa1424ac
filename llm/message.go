package llm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// Role is the author of a message.
type Role string

// The roles of the chat-completions protocol. The system message at the beginning of a request is not a Message: it is
// [Request.System]. RoleSystem is only used for one message of a request when several agents share their requests: its
// text names the agent that answers. It is the last one, or the user's message comes right after it once more.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleSystem    Role = "system"
)

// Message is one entry of the conversation that a model reads. The messages of a request are shared: a Model must not
// change them.
//
// A user message has text, or parts (text and media). An assistant message has text, and [ToolCall] or [Reasoning]
// parts. A tool message has exactly one [ToolResult] part.
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

// TextPart is text next to media in a user message.
type TextPart struct{ Text string }

// MediaKind distinguishes images and audio for the model from all other files.
type MediaKind string

// The kinds of media that a user message can contain.
const (
	MediaImage MediaKind = "image"
	MediaFile  MediaKind = "file"
	MediaAudio MediaKind = "audio"
)

// Media is an image, audio or a file, given either as bytes or as a URL that the endpoint can reach. MediaType is a
// MIME type such as image/png. Name is the file's name, and optional.
//
// A Media that has only a Digest refers to a file of the session. The runner puts the file's bytes in its place before
// it asks a model, so a Model never sees it.
type Media struct {
	Kind      MediaKind
	MediaType string
	Data      []byte
	URL       string
	Name      string
	Digest    string
}

// ToolCall is a model's request to run a tool. Arguments is the text that the model wrote: usually, but not always, a
// JSON object.
type ToolCall struct {
	// ID distinguishes the call from the other calls of its answer. A model may return any ID, including one that it
	// has used before: the runner names the calls of a conversation itself.
	ID        string
	Name      string
	Arguments string
	// Place is the call's position among all calls of its answer, from 1, if the message leaves out some of them. 0
	// means its position among the calls of the message.
	Place int
}

// ToolResult answers the tool call with the same ID.
type ToolResult struct {
	CallID  string
	Name    string
	Output  string
	IsError bool
}

// Reasoning is the thinking of an assistant, if the endpoint discloses it. Sealed is data that the endpoint needs back
// with it, in a form that only the endpoint's adapter reads.
type Reasoning struct{ Text, Sealed string }

func (TextPart) part()   {}
func (Media) part()      {}
func (ToolCall) part()   {}
func (ToolResult) part() {}
func (Reasoning) part()  {}

// UserText returns a user message with this text, unchanged.
func UserText(text string) Message {
	return Message{Role: RoleUser, Content: Content{Text: text}}
}

// UserParts returns a user message with several parts.
func UserParts(parts ...Part) Message {
	return Message{Role: RoleUser, Content: Content{Parts: parts}}
}

// PlainText returns Text and the text parts, joined by newlines. It leaves out media.
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

// MarshalJSON encodes user content as a string, or as an array of text, image, audio and file parts. It returns an
// error for other parts.
func (c Content) MarshalJSON() ([]byte, error) {
	if len(c.Parts) == 0 {
		return plainjson.Marshal(c.Text)
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
	return plainjson.Marshal(parts)
}

// UnmarshalJSON decodes the form that MarshalJSON encodes.
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
