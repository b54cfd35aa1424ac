// Package chatform reads and writes conversations and requests in the form of the chat-completions protocol
// (https://platform.openai.com/docs/api-reference/chat), in which other programs send and store them. It calls no
// endpoint.
package chatform

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// Message is one message.
type Message struct {
	Role       string `json:"role"`
	Content    any    `json:"content"` // null in an assistant's message without text
	ToolCalls  []Call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// Call is a call of a tool in an assistant's message.
type Call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is the called function; Arguments is JSON in a string.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// contentPart is a piece of a message's content.
type contentPart struct {
	Type     string      `json:"type"`
	Text     string      `json:"text,omitempty"`
	Refusal  string      `json:"refusal,omitempty"`
	ImageURL *imageURL   `json:"image_url,omitempty"`
	File     *inlineFile `json:"file,omitempty"`
	Audio    *inputAudio `json:"input_audio,omitempty"`

	// The name of a file in the form of the Responses protocol, next to its type.
	FileName string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
	FileURL  string `json:"file_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// UnmarshalJSON also reads an address alone, which is the form of the Responses protocol.
func (u *imageURL) UnmarshalJSON(data []byte) error {
	type object imageURL
	if json.Unmarshal(data, &u.URL) == nil {
		return nil
	}
	return json.Unmarshal(data, (*object)(u))
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type inlineFile struct {
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data,omitempty"`
	ID   string `json:"file_id,omitempty"`
}

// CallOf returns a call in this form.
func CallOf(c llm.ToolCall) Call { return Call{c.ID, "function", Function{c.Name, c.Arguments}} }

// Messages returns messages in this form.
func Messages(messages []llm.Message) []Message {
	out := []Message{}
	for _, m := range messages {
		c := Message{Role: string(m.Role)}
		switch m.Role {
		case llm.RoleTool:
			for _, part := range m.Parts {
				if r, ok := part.(llm.ToolResult); ok {
					c.Content, c.ToolCallID = r.Output, r.CallID
				}
			}
		case llm.RoleAssistant:
			if words := m.PlainText(); words != "" {
				c.Content = words
			}
			for _, part := range m.Parts {
				if call, ok := part.(llm.ToolCall); ok {
					c.ToolCalls = append(c.ToolCalls, CallOf(call))
				}
			}
		default:
			c.Content = writeContent(m.Content)
		}
		out = append(out, c)
	}
	return out
}

// writeContent returns a user's content: a string, or parts.
func writeContent(c llm.Content) any {
	if len(c.Parts) == 0 {
		return c.Text
	}
	var parts []contentPart
	if c.Text != "" {
		parts = append(parts, contentPart{Type: "text", Text: c.Text})
	}
	for _, part := range c.Parts {
		switch part := part.(type) {
		case llm.TextPart:
			parts = append(parts, contentPart{Type: "text", Text: part.Text})
		case llm.Media:
			parts = append(parts, writeMedia(part))
		}
	}
	return parts
}

// writeMedia returns an image or a file. The protocol has no form for a file with only an address, so that is described
// in a text.
func writeMedia(m llm.Media) contentPart {
	switch {
	case m.Kind == llm.MediaAudio && m.URL == "":
		format := strings.TrimPrefix(m.MediaType, "audio/")
		return contentPart{Type: "input_audio", Audio: &inputAudio{base64.StdEncoding.EncodeToString(m.Data), cmp.Or(map[string]string{"mpeg": "mp3"}[format], format)}}
	case m.Kind == llm.MediaImage:
		return contentPart{Type: "image_url", ImageURL: &imageURL{Address(m)}}
	case m.URL != "":
		return contentPart{Type: "text", Text: "(" + Media(m) + ")"}
	}
	return contentPart{Type: "file", File: &inlineFile{Name: m.Name, Data: Address(m)}}
}

// Address returns the URL of an image or a file, which may contain its data.
func Address(m llm.Media) string {
	if m.URL != "" {
		return m.URL
	}
	return "data:" + cmp.Or(m.MediaType, "application/octet-stream") + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
}

// Media describes an image or a file in a text.
func Media(m llm.Media) string {
	words := []string{string(m.Kind), m.MediaType, m.Name, m.URL}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// Write writes messages as a JSON array with one message per line.
func Write(w io.Writer, messages []Message) {
	fmt.Fprint(w, "[")
	for i, m := range messages {
		line, _ := plainjson.Marshal(m) // messages always have a JSON form
		fmt.Fprintf(w, "%s\n%s", map[bool]string{true: ","}[i > 0], visible.JSON(line))
	}
	if len(messages) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "]")
}

// Read reads messages: an array, an object with an array as "messages", as in requests, or one message after the other.
// It leaves out system messages, because agents have their own instructions, and returns their number.
func Read(data []byte) (messages []llm.Message, system int, err error) {
	raw, err := rawMessages(data)
	if err != nil {
		return nil, 0, err
	}
	for n, r := range raw {
		m, err := ReadMessage(r)
		if err != nil {
			return nil, 0, fmt.Errorf("message %d: %w", n+1, err)
		}
		if m.Role == "" {
			system++
			continue
		}
		messages = append(messages, m)
	}
	return messages, system, nil
}

func rawMessages(data []byte) ([]json.RawMessage, error) {
	var raw []json.RawMessage
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var next json.RawMessage
		switch err := d.Decode(&next); {
		case errors.Is(err, io.EOF):
			return raw, nil
		case err != nil:
			return nil, fmt.Errorf("it is not JSON, after byte %d: %w", d.InputOffset(), err)
		}
		var list []json.RawMessage
		var request struct {
			Role     *string           `json:"role"`
			Messages []json.RawMessage `json:"messages"`
		}
		switch {
		case json.Unmarshal(next, &list) == nil:
			raw = append(raw, list...)
		case json.Unmarshal(next, &request) == nil && request.Role == nil && request.Messages != nil:
			raw = append(raw, request.Messages...)
		default:
			raw = append(raw, next)
		}
	}
}

// ReadMessage reads one message. A system message has no role in the result.
func ReadMessage(data json.RawMessage) (m llm.Message, err error) {
	var in struct {
		Role         string          `json:"role"`
		Content      json.RawMessage `json:"content"`
		Refusal      string          `json:"refusal"`
		ToolCalls    []Call          `json:"tool_calls"`
		ToolCallID   string          `json:"tool_call_id"`
		FunctionCall json.RawMessage `json:"function_call"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			err = fmt.Errorf("%s cannot be of type %s", cmp.Or(wrong.Field, "it"), wrong.Value) // without types of Go
		}
		return m, fmt.Errorf("it is not a chat message: %w", err)
	}
	if in.Role == "system" || in.Role == "developer" {
		return m, nil // whatever its content is
	}
	content, err := ReadContent(in.Content)
	if err != nil {
		return m, err
	}
	switch in.Role {
	case "user":
		return llm.Message{Role: llm.RoleUser, Content: content}, nil
	case "assistant":
		if len(in.FunctionCall) > 0 && string(in.FunctionCall) != "null" {
			return m, errors.New(`it has a "function_call", which "tool_calls" have replaced`)
		}
		m = llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: content.PlainText() + in.Refusal}}
		for _, c := range in.ToolCalls {
			if c.Type != "function" && c.Type != "" {
				return m, fmt.Errorf("it calls a tool of the unknown type %.40q", c.Type)
			}
			m.Parts = append(m.Parts, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		return m, nil
	case "tool":
		return Result(in.ToolCallID, content), nil
	}
	return m, fmt.Errorf("the role %.40q is not one of system, user, assistant and tool", in.Role)
}

// Result returns the message with the result of a call. A result is text, so images and files are described in it.
func Result(call string, content llm.Content) llm.Message {
	for i, part := range content.Parts {
		if m, ok := part.(llm.Media); ok {
			content.Parts[i] = llm.TextPart{Text: "(" + Media(m) + ")"}
		}
	}
	result := llm.ToolResult{CallID: call, Output: content.PlainText()}
	return llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{result}}}
}

// ReadContent reads the content of a message: a text, or a list of parts, in the form of this protocol or of the
// Responses protocol.
func ReadContent(data json.RawMessage) (c llm.Content, err error) {
	var parts []contentPart
	switch {
	case len(data) == 0 || string(data) == "null" || json.Unmarshal(data, &c.Text) == nil:
		return c, nil
	case json.Unmarshal(data, &parts) != nil:
		return c, errors.New("its content is neither text nor a list of parts")
	}
	for i, p := range parts {
		part, err := readPart(p)
		if err != nil {
			return c, fmt.Errorf("part %d of its content: %w", i+1, err)
		}
		c.Parts = append(c.Parts, part)
	}
	return c, nil
}

func readPart(p contentPart) (llm.Part, error) {
	switch {
	case p.Type == "text", p.Type == "input_text", p.Type == "output_text":
		return llm.TextPart{Text: p.Text}, nil
	case p.Type == "refusal":
		return llm.TextPart{Text: p.Refusal}, nil
	case (p.Type == "image_url" || p.Type == "input_image") && p.ImageURL != nil && p.ImageURL.URL != "":
		return readMedia(llm.Media{Kind: llm.MediaImage}, p.ImageURL.URL)
	case p.Type == "input_audio" && p.Audio != nil && p.Audio.Data != "":
		data, err := base64.StdEncoding.DecodeString(p.Audio.Data)
		if err != nil {
			return nil, errors.New("its audio is not in base64")
		}
		return llm.Media{Kind: llm.MediaAudio, MediaType: "audio/" + cmp.Or(map[string]string{"mp3": "mpeg"}[p.Audio.Format], p.Audio.Format), Data: data}, nil
	case p.Type == "file" && p.File != nil && p.File.Data != "":
		return readMedia(llm.Media{Kind: llm.MediaFile, Name: p.File.Name}, p.File.Data)
	case p.Type == "input_file" && p.FileData+p.FileURL != "":
		return readMedia(llm.Media{Kind: llm.MediaFile, Name: p.FileName}, cmp.Or(p.FileData, p.FileURL))
	case p.Type == "file", p.Type == "input_file":
		return nil, errors.New("the file is not in it: send file_data")
	case p.Type == "image_url", p.Type == "input_image":
		return nil, errors.New("the image is not in it: send image_url")
	case p.Type == "input_audio":
		return nil, errors.New("the audio is not in it: send data")
	}
	return nil, fmt.Errorf("the type %.40q cannot be carried over", p.Type)
}

// readMedia reads a data: URL (RFC 2397), or keeps another URL unchanged.
func readMedia(m llm.Media, url string) (llm.Part, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok && !strings.Contains(url, "://") {
		return nil, errors.New("its address is neither a URL nor a data: address")
	} else if !ok {
		m.URL = url
		return m, nil
	}
	head, body, ok := strings.Cut(rest, ",")
	mediaType, encoded := strings.CutSuffix(head, ";base64")
	data, err := base64.StdEncoding.DecodeString(body)
	if !ok || !encoded || err != nil {
		return nil, errors.New("its data: address is not in base64")
	}
	m.MediaType, m.Data = mediaType, data
	return m, nil
}
