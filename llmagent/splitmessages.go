package llmagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// splitMessages is the input and the output of the two parts of a split agent; see [Agent.Split] for its JSON form.
type splitMessages struct {
	keys     map[string]json.RawMessage // the keys of the input object
	messages []splitMessage
}

// splitMessage is an entry of splitMessages.messages.
type splitMessage struct {
	Role      llm.Role    `json:"role"`
	Content   string      `json:"content"`
	ToolCalls []splitCall `json:"tool_calls,omitempty"`
	Reasoning string      `json:"reasoning,omitempty"`
	Sealed    string      `json:"sealed,omitempty"` // data about the reasoning that the endpoint needs back
	CallID    string      `json:"tool_call_id,omitempty"`
	Name      string      `json:"name,omitempty"`
	IsError   bool        `json:"is_error,omitempty"`
}

type splitCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

func (c *splitCall) event() *event.ToolCall { return &event.ToolCall{Name: c.Name, Input: c.Args} }

// readSplit reads an input. An input without the key "messages" is one message of the user.
func readSplit(input json.RawMessage) (p splitMessages, err error) {
	if json.Unmarshal(input, &p.keys) != nil || p.keys["messages"] == nil {
		p.keys = map[string]json.RawMessage{}
		text := event.OutputText(input)
		if strings.TrimSpace(text) == "" {
			text = view.NoInput
		}
		p.add(splitMessage{Role: llm.RoleUser, Content: text})
		return p, nil
	}
	var raw []json.RawMessage
	if json.Unmarshal(p.keys["messages"], &raw) != nil || len(raw) == 0 {
		return p, errors.New("the input's messages must be a list of at least one message")
	}
	for i, r := range raw {
		var m splitMessage
		if json.Unmarshal(r, &m) != nil || !m.valid() {
			return p, fmt.Errorf("message %d of the input's messages must have a role (user, assistant or tool), a text as content, and tool_calls that are a list of {id, name, args}", i+1)
		}
		p.add(m)
	}
	return p, nil
}

func (m *splitMessage) valid() bool {
	for _, c := range m.ToolCalls {
		if _, err := object(c.Args); err != nil || !toolName(c.Name) {
			return false
		}
	}
	return m.Role == llm.RoleUser || m.Role == llm.RoleAssistant || m.Role == llm.RoleTool
}

// calls returns the calls of the last message.
func (p *splitMessages) calls() []splitCall { return p.messages[len(p.messages)-1].ToolCalls }

// callIDs returns the ids of the calls of all messages. They pair calls with results only in these messages: the log
// has other ids.
func (p *splitMessages) callIDs() map[string]bool {
	ids := make(map[string]bool)
	for _, m := range p.messages {
		for _, c := range m.ToolCalls {
			ids[c.ID] = true
		}
	}
	return ids
}

func (p *splitMessages) add(m splitMessage) { p.messages = append(p.messages, m) }

func (p *splitMessages) output() json.RawMessage {
	p.keys["messages"] = event.EncodeJSON(p.messages)
	return event.EncodeJSON(p.keys)
}

// SplitCalls yields the calls, with their ids, in the output of the model part of a split agent. It yields nothing if
// the output is invalid.
func SplitCalls(output json.RawMessage) iter.Seq2[string, *event.ToolCall] {
	return func(yield func(string, *event.ToolCall) bool) {
		p, err := readSplit(output)
		if err != nil {
			return
		}
		for _, c := range p.calls() {
			if !yield(c.ID, c.event()) {
				return
			}
		}
	}
}

// requestMessages returns the messages of an input for a request.
func requestMessages(input json.RawMessage) (all []llm.Message) {
	p, _ := readSplit(input) // finishSplit returns the error, which ends the run
	for _, m := range p.messages {
		out := llm.Message{Role: m.Role, Content: llm.Content{Text: m.Content}}
		switch {
		case m.Role == llm.RoleTool:
			out.Content = llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: m.CallID, Name: m.Name, Output: m.Content, IsError: m.IsError}}}
		case strings.TrimSpace(m.Content) == "" && len(m.ToolCalls) == 0: // some endpoints refuse an empty message
			continue
		}
		if len(m.ToolCalls) > 0 && m.Reasoning != "" || m.Sealed != "" {
			out.Parts = append(out.Parts, llm.Reasoning{Text: m.Reasoning, Sealed: m.Sealed})
		}
		for _, c := range m.ToolCalls {
			out.Parts = append(out.Parts, llm.ToolCall{ID: c.ID, Name: c.Name, Arguments: string(c.Args)})
		}
		all = append(all, out)
	}
	return all
}
