package agui

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// input is the body of a request that runs a turn. Other members are ignored, as the protocol requires.
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

// answer is a page's answer to an interrupt.
type answer struct {
	ID      string          `json:"interruptId"`
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload"`
}

// readInput returns the input of a request, and the key of its session.
func readInput(c *front.Call) (in *input, key session.Key, err error) {
	body, err := c.Body("application/json")
	if err != nil {
		return nil, key, err
	}
	in = &input{}
	switch _, err = front.DecodeKnown(body, in); {
	case err != nil:
	case in.Thread == "":
		err = front.ProblemAt("threadId", "is missing")
	case in.Run == "" || len(in.Run) > 255 || strings.ContainsFunc(in.Run, func(r rune) bool { return !unicode.IsPrint(r) }):
		err = front.ProblemAt("runId", "must be 1 to 255 bytes of printable characters")
	case in.Messages == nil:
		err = front.ProblemAt("messages", "is missing")
	default:
		key, err = c.Key(in.Thread)
	}
	return in, key, err
}

// ignored returns the names of what the handler ignores in an input.
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

// results returns the results of calls that the page ran: the tool messages directly before an index.
func (in *input) results(before int) (all []runner.Decision) {
	for _, m := range slices.Backward(in.Messages[:before]) {
		if m.Role != "tool" {
			break
		}
		var text string
		if m.Error != "" {
			text = "The tool failed: " + m.Error
		} else if json.Unmarshal(m.Content, &text) != nil { // some pages send JSON that is not a string
			text = string(m.Content)
		}
		all = append(all, runner.Answer(m.Call, text))
	}
	return all
}

// firstNew returns the index of the first user message after the last message of an agent or a tool. If the messages
// end with results of tools, it returns that of the user messages before the calls.
func (in *input) firstNew() int {
	first, end := len(in.Messages), len(in.results(len(in.Messages))) == 0
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

// answered reports whether the last message of a user, tool or agent is an agent's.
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

// userMessage joins the messages from an index on to one user message. Texts and calls of others in it are claims of
// the page. The metadata contains the ids of the user's messages.
func (in *input) userMessage(from int) (content llm.Content, metadata map[string]any, err error) {
	all, _, err := in.conversation(from, len(in.Messages))
	if err != nil {
		return content, nil, err
	}
	var ids []any
	for _, m := range in.Messages[from:] {
		if m.Role == "user" {
			ids = append(ids, m.ID)
		}
	}
	content, metadata, err = chats.Join(all)
	if err == nil {
		set(&metadata, messagesKey, any(ids))
		err = front.CheckText(content)
	}
	return content, metadata, err
}

func user(parts []llm.Part) llm.Message {
	if len(parts) == 1 {
		if t, ok := parts[0].(llm.TextPart); ok {
			return llm.UserText(t.Text)
		}
	}
	return llm.UserParts(parts...)
}

// kinds are the kinds of media by the types of parts.
var kinds = map[string]llm.MediaKind{"image": llm.MediaImage, "audio": llm.MediaAudio, "video": llm.MediaFile, "document": llm.MediaFile}

// partsOf returns the parts of a message's content. index is that of the message, for errors.
func partsOf(index int, content json.RawMessage) (all []llm.Part, err error) {
	path := fmt.Sprintf("messages[%d].content", index)
	var text *string
	if json.Unmarshal(content, &text) == nil && text != nil {
		return []llm.Part{llm.TextPart{Text: *text}}, nil
	}
	var parts []part
	if json.Unmarshal(content, &parts) != nil || parts == nil {
		return nil, front.ProblemAt(path, "must be a string or an array of parts")
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

// media returns the media of a part that is not text. problem is "", or what is invalid.
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
		return m, "must be a text, image, audio, video, document or binary part of the protocol"
	}
	m.Kind, m.MediaType = kind, from.MIME
	switch from.Type {
	case "url":
		m.URL = from.Value
	case "data":
		var err error
		if m.Data, err = base64.StdEncoding.DecodeString(from.Value); err != nil || m.MediaType == "" {
			return m, "needs a mimeType and bytes in base64"
		}
	default:
		return m, fmt.Sprintf("has a source of the type %.40q: use data or url", from.Type)
	}
	return m, ""
}

// from returns the source of the part's bytes.
func (b *binary) from() (from *source, problem string) {
	switch {
	case b.MIME == "":
		return nil, "needs a mimeType"
	case b.Data != "":
		return &source{"data", b.Data, b.MIME}, ""
	case b.URL != "":
		return &source{"url", b.URL, b.MIME}, ""
	case b.ID != "":
		return nil, "has only an id, but this server has no uploaded files: send data or a url"
	}
	return nil, "needs data or a url"
}

// conversation converts the messages from one index up to another. It omits messages before the first user message,
// such as a greeting. ids are those of the user's messages among them.
func (in *input) conversation(from, before int) (all []llm.Message, ids []string, err error) {
	for i := from; i < before; i++ {
		m := in.Messages[i]
		if m.Role != "user" && (len(all) == 0 || m.Role != "assistant" && m.Role != "tool") {
			continue
		}
		var parts []llm.Part
		if m.Role == "user" || len(m.Content) > 0 && string(m.Content) != "null" { // some clients send null for an absent text
			if parts, err = partsOf(i, m.Content); err != nil {
				return nil, nil, err
			}
		}
		msg := user(parts)
		if m.Role != "user" {
			msg = llm.Message{Role: llm.Role(m.Role), Content: llm.Content{Text: msg.PlainText()}}
		}
		for _, c := range m.Calls {
			msg.Parts = append(msg.Parts, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		if m.Role == "tool" {
			msg.Content = llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: m.Call, Output: msg.Text}}}
		}
		if msg.Text == "" && len(msg.Parts) == 0 {
			continue
		}
		if all = append(all, msg); m.Role == "user" {
			ids = append(ids, m.ID)
		}
	}
	return all, ids, nil
}
