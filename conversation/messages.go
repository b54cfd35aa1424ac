package conversation

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// NoResult is what [Messages] gives a model as the result of a call that has none.
const NoResult = "This call has no result: it was not finished, and what it did is unknown."

// Messages returns what a model accepts as the conversation on the path: the
// user's messages, what agents said, their calls, and behind each answer one
// result for each of its calls, in their order. A call without a result gets one
// that says so. Reasoning, errors, and what sub-agents did inside of a call are
// left out. Names and arguments that endpoints refuse are made acceptable.
//
// Where the last message is the assistant's, the user's next one is still to be
// added before a model is asked.
func Messages(g *Graph, active Active) []llm.Message {
	var out []llm.Message
	summary, _, steps := active.summarized(g)
	if summary != "" {
		out = append(out, llm.UserText(summary))
	}
	for _, s := range steps {
		collapsed := active.collapsed[g.runAt(s.run).id]
		out = append(out, g.messages(s, collapsed)...)
	}
	return out
}

func (g *Graph) messages(s step, collapsed bool) []llm.Message {
	var out []llm.Message
	var open answer
	for _, place := range g.inStep(s) {
		n := g.at(place)
		switch n.body.kind {
		case KindUser:
			if m := userMessage(n); m.Text != "" || len(m.Parts) > 0 {
				out = append(out, m)
			}
		case KindText:
			if open.answered {
				out = append(out, open.messages(g)...)
				open = answer{}
			}
			open.text.WriteString(n.text())
		case KindToolCall:
			if collapsed {
				continue
			}
			if open.answered {
				out = append(out, open.messages(g)...)
				open = answer{}
			}
			open.calls = append(open.calls, n)
		case KindToolResult:
			open.answered = true
		}
	}
	return append(out, open.messages(g)...)
}

func userMessage(n *node) llm.Message {
	user, ok := n.data().(*agent.User)
	if !ok {
		return llm.Message{}
	}
	m := llm.Message{Role: llm.RoleUser, Content: user.Content}
	if len(m.Parts) == 1 {
		if t, ok := m.Parts[0].(llm.TextPart); ok && m.Text == "" {
			return llm.UserText(t.Text)
		}
	}
	return m
}

// answer is one answer of a model, with the results of its calls. The first
// result ends it.
type answer struct {
	text     strings.Builder
	calls    []*node
	answered bool
}

func (a *answer) messages(g *Graph) []llm.Message {
	text := a.text.String()
	if text == "" && len(a.calls) == 0 {
		return nil
	}
	m := llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text}}
	out := []llm.Message{m}
	for _, n := range a.calls {
		call, _ := n.data().(*agent.ToolCall)
		name := acceptable(call.Name)
		out[0].Parts = append(out[0].Parts, llm.ToolCall{ID: n.id, Name: name, Arguments: arguments(call.Input)})
		result := llm.ToolResult{CallID: n.id, Name: name, Output: NoResult, IsError: true}
		if place := g.resultOf(n); place != none {
			if r, ok := g.at(place).data().(*agent.ToolResult); ok {
				result.Output, result.IsError = agent.OutputText(r.Output), r.IsError
			}
		}
		out = append(out, llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{result}}})
	}
	return out
}

func arguments(input json.RawMessage) string {
	if string(input) == "null" {
		return "{}"
	}
	return string(agent.ObjectInput(string(input)))
}

var unacceptable = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// acceptable returns a tool's name in the form that endpoints ask for.
func acceptable(name string) string {
	name = unacceptable.ReplaceAllString(name, "_")
	if name == "" {
		return "tool"
	}
	return name[:min(len(name), 64)]
}
