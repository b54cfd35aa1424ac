package view

import (
	"slices"
	"strings"
	"unicode"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// page is the list of messages that the agent's model reads.
type page struct {
	agent      string
	node       *agent.Node
	policy     Policy
	hideReason bool
	outside    []*agent.Node // the roots of the trees around an inner scope
	sharing    []string      // the names of the agents that share their requests, including this one; nil without any

	shown   shown
	said    exchanges
	use     use
	dropped dropped
}

// native reports whether an agent's answers appear as assistant messages, with their calls and results.
func (v *page) native(name string) bool { return name == v.agent || slices.Contains(v.sharing, name) }

// addNative adds an answer of the agent, or of an agent that shares its requests.
func (v *page) addNative(a *answer) {
	var shown int
	for i := range a.calls {
		if !a.calls[i].hidden {
			shown++
		}
	}
	p := v.policy
	text := p.redactText(a.text)
	if p.redact != nil {
		a.sealed = "" // it cannot be redacted, so leave it out
	}
	if shown == 0 {
		if strings.TrimSpace(text) != "" { // some endpoints refuse a message without text
			m := llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text}}
			if a.sealed != "" { // endpoints need only sealed reasoning again
				m.Parts = []llm.Part{llm.Reasoning{Text: a.reasoning, Sealed: a.sealed}}
			}
			v.add(m, a.last)
		}
		return
	}
	parts, before := make([]llm.Part, 0, shown+1), 0
	if a.reasoning != "" || a.sealed != "" {
		parts = append(parts, llm.Reasoning{Text: p.redactText(a.reasoning), Sealed: a.sealed})
	}
	for i := range a.calls {
		if c := &a.calls[i]; !c.hidden {
			input := p.redactJSON(c.Input)
			if c.wire = c.Name; c.Name == agent.TransferTool && v.node.Properties.TransferCall != nil {
				c.wire, input = v.node.Properties.TransferCall(v.node, input)
			}
			call := llm.ToolCall{ID: c.ID, Name: c.wire, Arguments: string(input)}
			if before++; before <= i { // calls of the answer before this one are hidden
				call.Place = i + 1
			}
			parts = append(parts, call)
		}
	}
	v.add(llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text, Parts: parts}}, a.last)
	for i := range a.calls {
		if c := &a.calls[i]; !c.hidden {
			v.add(llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{
				llm.ToolResult{CallID: c.ID, Name: c.wire, Output: withFiles(p.redactText(event.OutputText(c.result)), c.files), IsError: c.isError}}}}, a.last)
		}
	}
}

// addAttributed adds an answer of another agent as user messages: its text, and a line for each call.
func (v *page) addAttributed(a *answer) {
	p := v.policy
	if a.show {
		if text := p.redactText(a.text); strings.TrimSpace(text) != "" {
			v.add(llm.UserText("["+a.agent+"] "+v.attribute(a.agent, text, true)), a.last)
		}
	}
	for i := range a.calls {
		c := &a.calls[i]
		if c.hidden {
			continue
		}
		verb := "): "
		if c.isError {
			verb = ") failed: "
		}
		// Redaction comes before the cut, so that it gets whole texts.
		in, out := p.fact(string(p.redactJSON(c.Input))), p.fact(p.redactText(event.OutputText(c.result)))
		v.add(llm.UserText("["+a.agent+"] called "+c.Name+"("+oneLine(in)+verb+quoted(out)), a.last)
	}
}

// addFile adds a file as one line, and as a part with its content if the policy says so.
func (v *page) addFile(d *event.File, by string, seq int64) {
	line := "[file " + d.String() + "]"
	if by != v.agent || v.sharing != nil {
		line = "[" + by + "] made the file " + d.String()
	}
	if !v.policy.files {
		v.add(llm.UserText(line), seq)
		return
	}
	v.add(llm.UserParts(llm.TextPart{Text: line}, llm.Media{Kind: kindOf(d.MediaType), MediaType: d.MediaType, Name: d.Name, URL: d.URL, Digest: d.Digest}), seq)
}

// transferLine returns the message about a transfer to the agent, "" for none. Normally the agent's system text says
// that another agent has chosen it, because small models imitate a line after the user's message and transfer as well
// (docs/routing.md). A message is needed if the last one is the agent's own, because no request may end with that.
func (v *page) transferLine(t *event.Transfer, returned []string) string {
	why, input := v.reason(t), ""
	if !v.hideReason {
		input = oneLine(string(v.policy.redactJSON(t.Payload)))
	}
	colon := func(text string) string {
		if why != "" {
			text += ": " + why
		}
		return "[" + t.From + "] " + text + "."
	}
	switch {
	case t.TransferType == event.TransferTypeRefused:
		return colon("did not accept the conversation") + " It is yours again."
	case slices.Contains(returned, t.From):
		return colon("returned the conversation to you") + " Answer the user, or choose another agent."
	case t.Routed() && !v.shown.spoke(): // the model need not know of a router's choice
		return ""
	case input != "":
		return colon("transferred the conversation to you, "+v.agent) + " Input: " + input
	case v.shown.spoke():
		return colon("transferred the conversation to you, " + v.agent)
	}
	return ""
}

// sharedTransferLine returns the line about a transfer for all agents that share their requests. It returns "" if the
// messages have the call for the transfer, or if a router or a person made the transfer.
func (v *page) sharedTransferLine(t *event.Transfer) string {
	line := "[" + t.From + "] transferred the conversation to " + t.To
	switch {
	case t.TransferType == event.TransferTypeRefused:
		line = "[" + t.From + "] did not accept the conversation, which went back to " + t.To
	case t.Routed(), t.TransferType == event.TransferTypeHumanToBot, t.ToolCallID != "" && v.native(t.From):
		return ""
	}
	if why := v.reason(t); why != "" {
		line += ": " + why
	}
	if line += "."; len(t.Payload) > 0 {
		line += " Input: " + oneLine(string(t.Payload))
	}
	return line
}

// reason returns the redacted reason of a transfer in one line, "" if the edge hides it.
func (v *page) reason(t *event.Transfer) string {
	if v.hideReason {
		return ""
	}
	return strings.TrimSuffix(oneLine(v.policy.redactText(t.Reason)), ".")
}

// inputText adds an input of the scope that is text, as the message that begins a turn. It adds nothing if the last
// message is the same text.
func (v *page) inputText(text string, seq int64) {
	in := v.policy.redactUser(text)
	if strings.TrimSpace(in) == "" {
		in = NoInput
	}
	if v.endsWith(in) {
		return
	}
	v.said.user(in, v.policy)
	if n := v.policy.turns; n > 0 && v.shown.turns == 2*n {
		v.shown.trim(n)
	}
	v.addTurn(llm.UserText(v.attribute("user", in, false)), seq)
}

// endsWith reports whether the last message begins a turn and has this text.
func (v *page) endsWith(in string) bool {
	n := len(v.shown.marks)
	return n > 0 && v.shown.marks[n-1].turn && v.shown.msgs[n-1].PlainText() == in
}

// add adds a message of the group of events that ends at seq. It ignores a group that a compaction has dropped before
// the group was complete.
func (v *page) add(m llm.Message, seq int64) {
	if seq > v.dropped.upTo {
		v.shown.add(m, seq, false)
	}
}

// addTurn adds the message that begins a user turn.
func (v *page) addTurn(m llm.Message, seq int64) {
	if seq > v.dropped.upTo {
		v.shown.add(m, seq, true)
	}
}

// attribute prevents a text from looking like the text of another speaker. If a line begins with the tag of the user or
// of an agent of the tree, such as "[billing] ", attribute puts the tag of the speaker before it. It changes nothing
// else. tagged says that the first line has its tag already.
func (v *page) attribute(speaker, text string, tagged bool) string {
	if strings.IndexByte(text, '[') < 0 {
		return text
	}
	var b strings.Builder
	done, begins := 0, !tagged
	for i, r := range text {
		switch {
		case strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r):
			begins = true
		case begins && !unicode.IsSpace(r) && !invisible(r):
			begins = false
			if r == '[' && v.isTag(text[i+1:]) {
				b.WriteString(text[done:i] + "[" + speaker + "] ")
				done = i
			}
		}
	}
	return b.String() + text[done:]
}

// invisible reports whether a character, such as a joiner or a direction mark, could hide a tag from isTag but not from
// a model.
func invisible(r rune) bool { return unicode.In(r, unicode.Cf, unicode.Mn) }

// isTag reports whether s, the text after a bracket, begins with the name of the user or an agent and a closing
// bracket.
func (v *page) isTag(s string) bool {
	name, _, ok := strings.Cut(s[:min(len(s), 1000)], "]")
	if !ok {
		return false
	}
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, name))
	return strings.EqualFold(name, "user") || named(outermost(v.node), name) ||
		slices.ContainsFunc(v.outside, func(root *agent.Node) bool { return named(root, name) })
}

// named reports whether the node or one below it has the name, in upper or lower case.
func named(n *agent.Node, name string) bool {
	return strings.EqualFold(n.Agent.Name(), name) || slices.ContainsFunc(n.Children(), func(kid *agent.Node) bool { return named(kid, name) })
}

// attributeUser applies attribute to the texts of a user's message.
func (v *page) attributeUser(c llm.Content) llm.Content {
	c.Text = v.attribute("user", c.Text, false)
	for i, part := range c.Parts {
		t, ok := part.(llm.TextPart)
		if !ok {
			continue
		}
		if text := v.attribute("user", t.Text, false); text != t.Text {
			c.Parts = slices.Clone(c.Parts) // the event shares the parts
			c.Parts[i] = llm.TextPart{Text: text}
		}
	}
	return c
}

// outermost returns the root of the node's tree.
func outermost(n *agent.Node) *agent.Node {
	for n.Parent != nil {
		n = n.Parent
	}
	return n
}

// withFiles returns the output of a call with a line for each file that the call has created.
func withFiles(output string, files []*event.File) string {
	for _, f := range files {
		output += "\n[file " + f.String() + "]"
	}
	return output
}

func kindOf(mediaType string) llm.MediaKind {
	if strings.HasPrefix(mediaType, "image/") {
		return llm.MediaImage
	}
	return llm.MediaFile
}
