package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/cli/internal/render"
	"github.com/agentarbor/arbor/llm"
)

// chatMessage is a message of the chat completions protocol
// (https://platform.openai.com/docs/api-reference/chat).
type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // null in an assistant's message without words
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// chatPart is a piece of a message's content.
type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	Refusal  string     `json:"refusal,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
	File     *chatFile  `json:"file,omitempty"`
	Audio    *chatAudio `json:"input_audio,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

type chatAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type chatFile struct {
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data,omitempty"`
	ID   string `json:"file_id,omitempty"`
}

// chatMessages writes messages in the form of the protocol.
func chatMessages(messages []llm.Message) []chatMessage {
	out := []chatMessage{}
	for _, m := range messages {
		c := chatMessage{Role: string(m.Role)}
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
					c.ToolCalls = append(c.ToolCalls, chatCall{call.ID, "function", chatFunction{call.Name, call.Arguments}})
				}
			}
		default:
			c.Content = chatContent(m.Content)
		}
		out = append(out, c)
	}
	return out
}

// chatContent writes what a user said: a string, or parts.
func chatContent(c llm.Content) any {
	if len(c.Parts) == 0 {
		return c.Text
	}
	var parts []chatPart
	if c.Text != "" {
		parts = append(parts, chatPart{Type: "text", Text: c.Text})
	}
	for _, part := range c.Parts {
		switch part := part.(type) {
		case llm.TextPart:
			parts = append(parts, chatPart{Type: "text", Text: part.Text})
		case llm.Media:
			parts = append(parts, chatMedia(part))
		}
	}
	return parts
}

// chatMedia writes an image or a file. A file that only its address names has no
// form of its own in the protocol, and is described in words.
func chatMedia(m llm.Media) chatPart {
	url := m.URL
	if url == "" {
		mediaType := m.MediaType
		if mediaType == "" {
			mediaType = "application/octet-stream"
		}
		url = "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
	}
	switch {
	case m.Kind == llm.MediaAudio && m.URL == "":
		return chatPart{Type: "input_audio", Audio: &chatAudio{base64.StdEncoding.EncodeToString(m.Data), strings.TrimPrefix(m.MediaType, "audio/")}}
	case m.Kind == llm.MediaImage:
		return chatPart{Type: "image_url", ImageURL: &chatImage{url}}
	case m.URL != "":
		return chatPart{Type: "text", Text: "(" + render.Media(m) + ")"}
	}
	return chatPart{Type: "file", File: &chatFile{Name: m.Name, Data: url}}
}

// writeChat writes messages as a JSON array with one message a line.
func writeChat(w io.Writer, messages []chatMessage) {
	fmt.Fprint(w, "[")
	for i, m := range messages {
		var line bytes.Buffer
		render.JSON(&line, m)
		fmt.Fprintf(w, "%s\n%s", map[bool]string{true: ","}[i > 0], bytes.TrimSuffix(line.Bytes(), []byte("\n")))
	}
	if len(messages) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "]")
}

// readChat reads messages: an array of them, an object that holds one as
// "messages", as requests do, or one message after the other. It counts the system
// messages, which it leaves out, because agents have instructions of their own.
func readChat(data []byte) (messages []llm.Message, system int, err error) {
	raw, err := rawMessages(data)
	if err != nil {
		return nil, 0, err
	}
	for n, r := range raw {
		m, err := readMessage(r)
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
			return nil, fmt.Errorf("it is no JSON, after byte %d: %w", d.InputOffset(), err)
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

// readMessage reads one message; that of a system has no role in the result.
func readMessage(data json.RawMessage) (m llm.Message, err error) {
	var in struct {
		Role         string          `json:"role"`
		Content      json.RawMessage `json:"content"`
		Refusal      string          `json:"refusal"`
		ToolCalls    []chatCall      `json:"tool_calls"`
		ToolCallID   string          `json:"tool_call_id"`
		FunctionCall json.RawMessage `json:"function_call"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return m, fmt.Errorf("it is no chat message: %w", err)
	}
	content, err := readContent(in.Content)
	if err != nil {
		return m, err
	}
	switch in.Role {
	case "system", "developer":
		return m, nil
	case "user":
		return llm.Message{Role: llm.RoleUser, Content: content}, nil
	case "assistant":
		if len(in.FunctionCall) > 0 && string(in.FunctionCall) != "null" {
			return m, errors.New(`it has a "function_call", which "tool_calls" have replaced`)
		}
		m = llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: content.PlainText()}}
		if m.Text == "" {
			m.Text = in.Refusal
		}
		for _, c := range in.ToolCalls {
			if c.Type != "function" && c.Type != "" {
				return m, fmt.Errorf("it calls a tool of the unknown type %.40q", c.Type)
			}
			m.Parts = append(m.Parts, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		return m, nil
	case "tool":
		result := llm.ToolResult{CallID: in.ToolCallID, Output: content.PlainText()}
		return llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{result}}}, nil
	}
	return m, fmt.Errorf("the role %.40q is none of system, user, assistant and tool", in.Role)
}

func readContent(data json.RawMessage) (c llm.Content, err error) {
	var parts []chatPart
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

func readPart(p chatPart) (llm.Part, error) {
	switch {
	case p.Type == "text":
		return llm.TextPart{Text: p.Text}, nil
	case p.Type == "refusal":
		return llm.TextPart{Text: p.Refusal}, nil
	case p.Type == "image_url" && p.ImageURL != nil && p.ImageURL.URL != "":
		return readMedia(llm.Media{Kind: llm.MediaImage}, p.ImageURL.URL)
	case p.Type == "input_audio" && p.Audio != nil && p.Audio.Data != "":
		data, err := base64.StdEncoding.DecodeString(p.Audio.Data)
		if err != nil {
			return nil, errors.New("its audio is not in base64")
		}
		return llm.Media{Kind: llm.MediaAudio, MediaType: "audio/" + p.Audio.Format, Data: data}, nil
	case p.Type == "file" && p.File != nil && p.File.Data != "":
		return readMedia(llm.Media{Kind: llm.MediaFile, Name: p.File.Name}, p.File.Data)
	case p.Type == "file":
		return nil, errors.New("the file is not in it")
	}
	return nil, fmt.Errorf("the type %.40q cannot be carried over", p.Type)
}

// readMedia reads a data: URL (RFC 2397), or keeps an address as it is.
func readMedia(m llm.Media, url string) (llm.Part, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
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
