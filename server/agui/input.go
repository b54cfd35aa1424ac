package agui

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// input is what a page wants to have run. Other members are ignored, as the protocol says.
type input struct {
	Thread   string             `json:"threadId"`
	Run      string             `json:"runId"`
	Messages []message          `json:"messages"`
	Tools    []tools.ClientTool `json:"tools"`
	Context  []struct {
		Description string `json:"description"`
	} `json:"context"`
	Forwarded json.RawMessage `json:"forwardedProps"`
	Resume    []answer        `json:"resume"`
	State     json.RawMessage `json:"state"`

	ignoredState []string // keys of State
}

// answer is what a page says to an interrupt.
type answer struct {
	ID      string          `json:"interruptId"`
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload"`
}

// read reads the input of a request, and the key of its session.
func read(c *front.Call) (in *input, key session.Key, err error) {
	body, err := c.Body("application/json")
	if err != nil {
		return nil, key, err
	}
	in = &input{}
	var form *json.UnmarshalTypeError
	switch err = json.Unmarshal(body, in); {
	case errors.As(err, &form):
		err = front.ProblemAt(form.Field, "does not have the form that the protocol gives it")
	case err != nil:
		err = front.BadRequest("the body is not JSON: %s", err)
	case in.Thread == "":
		err = front.ProblemAt("threadId", "is missing")
	case in.Run == "" || len(in.Run) > 255 || strings.ContainsFunc(in.Run, func(r rune) bool { return !unicode.IsPrint(r) }):
		err = front.ProblemAt("runId", "must be 1 to 255 bytes that can be printed")
	case in.Messages == nil:
		err = front.ProblemAt("messages", "is missing")
	default:
		key, err = c.Key(in.Thread)
	}
	return in, key, err
}

// ignored names what an input has that is not honoured.
func (h *Handler) ignored(in *input) map[string][]string {
	all := make(map[string][]string)
	for _, t := range in.Tools {
		if h.clientTools.None() {
			all["tools"] = append(all["tools"], t.Name)
		}
	}
	for _, c := range in.Context {
		all["context"] = append(all["context"], c.Description)
	}
	for _, m := range in.Messages {
		if m.Role == "system" || m.Role == "developer" {
			all["messages"] = append(all["messages"], m.ID)
		}
	}
	var props map[string]json.RawMessage
	if json.Unmarshal(in.Forwarded, &props) == nil && len(props) > 0 {
		all["forwardedProps"] = slices.Sorted(maps.Keys(props))
	}
	if len(in.ignoredState) > 0 {
		all["state"] = in.ignoredState
	}
	for of, names := range all {
		all[of] = front.Shortened(names)
	}
	return all
}

// results returns the results of the calls that the page ran, by the ids of the calls: the messages of tools at the end.
func (in *input) results() map[string]json.RawMessage {
	all := make(map[string]json.RawMessage)
	for _, m := range slices.Backward(in.Messages) {
		if m.Role != "tool" {
			break
		}
		all[m.Call] = m.Content
		if m.Error != "" {
			all[m.Call] = event.EncodeJSON("The tool failed: " + m.Error)
		}
	}
	return all
}

// tail returns the index of the first of the user's messages after the last of anybody else's. If results of tools are at
// the end, these are the messages before the calls.
func (in *input) tail() int {
	first, end := len(in.Messages), len(in.results()) == 0
	for i, m := range slices.Backward(in.Messages) {
		switch m.Role {
		case "user":
			first, end = i, true
		case "assistant", "tool":
			if end {
				return first
			}
		}
	}
	return first
}

// answered reports whether the last message is an answer.
func (in *input) answered() bool {
	for _, m := range slices.Backward(in.Messages) {
		switch m.Role {
		case "user", "tool":
			return false
		case "assistant":
			return true
		}
	}
	return false
}

// words makes one message of the messages from a place on: of the user's words, and of what others have said and done
// after them as a claim. Its metadata has the ids of the user's messages.
func (in *input) words(from int) (said llm.Content, metadata map[string]any, err error) {
	all, err := in.conversation(from, len(in.Messages))
	if err != nil {
		return said, nil, err
	}
	var ids []any
	for _, m := range in.Messages[from:] {
		if m.Role == "user" {
			ids = append(ids, m.ID)
		}
	}
	said, metadata, err = chats.Join(all)
	if err == nil {
		set(&metadata, messagesKey, any(ids))
		err = front.CheckText(said)
	}
	return said, metadata, err
}

func user(parts []llm.Part) llm.Message {
	if len(parts) == 1 {
		if t, ok := parts[0].(llm.TextPart); ok {
			return llm.UserText(t.Text)
		}
	}
	return llm.UserParts(parts...)
}

// kinds are the media that a model can be shown, by the types of parts.
var kinds = map[string]llm.MediaKind{"image": llm.MediaImage, "audio": llm.MediaAudio, "video": llm.MediaFile, "document": llm.MediaFile}

// partsOf reads the content of the message at a place.
func partsOf(place int, content json.RawMessage) (all []llm.Part, err error) {
	path := fmt.Sprintf("messages[%d].content", place)
	var text *string
	if json.Unmarshal(content, &text) == nil && text != nil {
		return []llm.Part{llm.TextPart{Text: *text}}, nil
	}
	var parts []part
	if json.Unmarshal(content, &parts) != nil || parts == nil {
		return nil, front.ProblemAt(path, "must be a text or a list of parts")
	}
	for i, p := range parts {
		if p.Type == "text" && p.Text != nil {
			all = append(all, llm.TextPart{Text: *p.Text})
			continue
		}
		media, problem := p.media()
		if problem != "" {
			return nil, front.ProblemAt(fmt.Sprintf("%s[%d]", path, i), problem)
		}
		all = append(all, media)
	}
	return all, nil
}

// media reads a part that is no text. A problem says what is wrong with it.
func (p *part) media() (m llm.Media, problem string) {
	kind, known := kinds[p.Type]
	from := p.Source
	switch {
	case p.Type == "binary":
		if from, problem = p.binary.from(); problem != "" {
			return m, problem
		}
		m.Name, kind = p.Name, kinds[strings.Split(p.MIME, "/")[0]]
		if kind == "" {
			kind = llm.MediaFile
		}
	case !known || from == nil:
		return m, "is no text, image, audio, video, document or binary part as the protocol has them"
	}
	m.Kind, m.MediaType = kind, from.MIME
	switch from.Type {
	case "url":
		m.URL = from.Value
	case "data":
		var err error
		if m.Data, err = base64.StdEncoding.DecodeString(from.Value); err != nil || m.MediaType == "" {
			return m, "needs a mimeType, and bytes as base64"
		}
	default:
		return m, fmt.Sprintf("has the source %.40q: data or a url is supported", from.Type)
	}
	return m, ""
}

// from returns where the bytes of the part are.
func (b *binary) from() (from *source, problem string) {
	switch {
	case b.MIME == "":
		return nil, "needs a mimeType"
	case b.Data != "":
		return &source{"data", b.Data, b.MIME}, ""
	case b.URL != "":
		return &source{"url", b.URL, b.MIME}, ""
	case b.ID != "":
		return nil, "has only an id, and this server has no uploaded files: send data or a url"
	}
	return nil, "needs data or a url"
}

// conversation makes messages of those between two places. What stands before the user's first words is left out, such as a
// greeting.
func (in *input) conversation(from, before int) (all []llm.Message, err error) {
	for i := from; i < before; i++ {
		m := in.Messages[i]
		if m.Role != "user" && (len(all) == 0 || m.Role != "assistant" && m.Role != "tool") {
			continue
		}
		var parts []llm.Part
		if len(m.Content) > 0 || m.Role != "assistant" {
			if parts, err = partsOf(i, m.Content); err != nil {
				return nil, err
			}
		}
		said := user(parts)
		if m.Role != "user" {
			said = llm.Message{Role: llm.Role(m.Role), Content: llm.Content{Text: said.PlainText()}}
		}
		for _, c := range m.Calls {
			said.Parts = append(said.Parts, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		if m.Role == "tool" {
			said.Content = llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: m.Call, Output: said.Text}}}
		}
		if said.Text != "" || len(said.Parts) > 0 {
			all = append(all, said)
		}
	}
	return all, nil
}
