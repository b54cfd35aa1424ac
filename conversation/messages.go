package conversation

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// NoResult is the result that [Messages] adds to a call without a result.
const NoResult = "This call has no result: it was not finished, and what it did is unknown."

// Messages returns the conversation on the path as messages for a model: the user's messages, the texts of agents,
// their calls, and after each answer one result for each of its calls. It leaves out reasoning, errors, and the work of
// sub-agents inside calls.
//
// For any events, also of an interrupted turn, and for any path, an endpoint accepts the messages:
//
//   - A user's message has a text, or parts that are text and media. A summary is a user's message.
//   - An assistant's message has a text, calls, or both; its parts are calls. Each call has another id: that of its
//     node if it has 1 to 64 printable ASCII characters without spaces, and otherwise call_1, call_2 and so on. Names
//     have 1 to 64 letters, digits, underscores and hyphens, and arguments are JSON objects.
//   - Directly after an assistant's message with calls come messages of the role tool, each with one result, in the
//     order of the calls. A call without a result gets [NoResult], as an error. No other message has that role.
//   - There are no other roles and no other parts, and no message is empty.
//
// If the last message is the assistant's or a result, the caller must add a user's message before it asks a model. The
// messages share memory with the graph and must not be changed.
func Messages(g *Graph, active Active) []llm.Message {
	w := writer{path: path{g, active}}
	summary, _, steps := w.path.summarized()
	if summary != "" {
		w.out = append(w.out, llm.UserText(summary))
	}
	for _, s := range steps {
		w.step(s, active.collapsed[g.runAt(s.run).id])
	}
	return w.out
}

// writer collects messages.
type writer struct {
	path  path
	out   []llm.Message
	named int // the number of calls with ids such as call_1
}

func (w *writer) step(s step, collapsed bool) {
	var open answer
	for _, place := range w.path.g.run(s.run, s.cut) {
		n := w.path.g.at(place)
		switch n.body.kind {
		case event.TypeUser:
			w.answer(s, &open)
			if m := userMessage(n); m.Text != "" || len(m.Parts) > 0 {
				w.out = append(w.out, m)
			}
		case event.TypeText:
			if open.answered {
				w.answer(s, &open)
			}
			open.text.WriteString(n.text())
		case event.TypeToolCall:
			if collapsed {
				continue
			}
			if open.answered {
				w.answer(s, &open)
			}
			open.calls = append(open.calls, n)
		case event.TypeToolResult:
			open.answered = true
		}
	}
	w.answer(s, &open)
}

func userMessage(n *node) llm.Message {
	user, ok := n.data().(*event.User)
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

// answer is one answer of a model. The first result of its calls ends it.
type answer struct {
	text     strings.Builder
	calls    []*node
	answered bool
}

// answer appends the messages of an answer, unless it is empty, and empties it.
func (w *writer) answer(s step, a *answer) {
	text, calls := a.text.String(), a.calls
	*a = answer{}
	if text == "" && len(calls) == 0 {
		return
	}
	m := llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text}}
	var results []llm.Message
	for _, n := range calls {
		call, _ := n.data().(*event.ToolCall)
		id, name := w.callID(n.id), acceptable(call.Name)
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: name, Arguments: arguments(call.Input)})
		result := llm.ToolResult{CallID: id, Name: name, Output: NoResult, IsError: true}
		if place := w.path.resultOf(s, n); place != none {
			if r, ok := w.path.g.at(place).data().(*event.ToolResult); ok {
				result.Output, result.IsError = event.OutputText(r.Output), r.IsError
			}
		}
		results = append(results, llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{result}}})
	}
	w.out = append(append(w.out, m), results...)
}

// callID returns the id of a call that endpoints accept.
func (w *writer) callID(id string) string {
	if wireID.MatchString(id) {
		return id
	}
	for {
		w.named++
		if id = "call_" + strconv.Itoa(w.named); w.path.g.find(id) == none {
			return id
		}
	}
}

var wireID = lazyregexp.New(`^[!-~]{1,64}$`)

func arguments(input json.RawMessage) string {
	if string(input) == "null" {
		return "{}"
	}
	return string(event.ObjectInput(string(input)))
}

var unacceptable = lazyregexp.New(`[^a-zA-Z0-9_-]`)

// acceptable returns the name of a tool in the form that endpoints accept.
func acceptable(name string) string {
	name = unacceptable.Get().ReplaceAllString(name, "_")
	if name == "" {
		return "tool"
	}
	return name[:min(len(name), 64)]
}
