package view

import (
	"slices"
	"strings"
	"unicode"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// page is the list of messages as the agent's model reads them.
type page struct {
	agent      string
	node       *agent.Node
	policy     Policy
	hideReason bool
	outside    []*agent.Node // the roots of the trees whose agents talk around the scope
	sharing    []string      // the agents that share their requests, this one among them; nil without any

	shown   shown
	said    exchanges
	use     use
	dropped dropped
}

// native reports whether an agent's answers are shown as the model gave them.
func (v *page) native(name string) bool { return name == v.agent || slices.Contains(v.sharing, name) }

// addNative shows an answer of the agent, or of one that shares its requests.
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
		a.sealed = "" // it cannot be redacted
	}
	if shown == 0 {
		if strings.TrimSpace(text) != "" { // some endpoints refuse a message without text
			m := llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text}}
			if a.sealed != "" { // else it is of an endpoint that does not want it
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
			if before++; before <= i { // others of the answer are left out
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

// addAttributed shows an answer of another agent.
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
		// Redaction comes before the cut, so that it sees whole words.
		in, out := p.fact(string(p.redactJSON(c.Input))), p.fact(p.redactText(event.OutputText(c.result)))
		v.add(llm.UserText("["+a.agent+"] called "+c.Name+"("+oneLine(in)+verb+quoted(out)), a.last)
	}
}

// addFile shows a file as one line, and as a part if the policy says so.
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

// arrives returns the message by which the agent's model reads of a transfer to it, "" for none. The model of an
// agent that another agent has chosen reads that in its system text: small models imitate a line after the user's
// message, and transfer as well (docs/routing.md). But the agent's own message must not be the last.
func (v *page) arrives(t *event.Transfer, returned []string) string {
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
	case t.Routed() && !v.shown.spoke(): // a router's choice is no news
		return ""
	case input != "":
		return colon("transferred the conversation to you, "+v.agent) + " Input: " + input
	case v.shown.spoke():
		return colon("transferred the conversation to you, " + v.agent)
	}
	return ""
}

// moved returns the line about a transfer for all agents that share their requests, "" where the call of one of them
// shows it, or a router has chosen.
func (v *page) moved(t *event.Transfer) string {
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

// reason returns the reason of a transfer as the agent's model may read it.
func (v *page) reason(t *event.Transfer) string {
	if v.hideReason {
		return ""
	}
	return strings.TrimSuffix(oneLine(v.policy.redactText(t.Reason)), ".")
}

// inputText shows an input of the scope that is text.
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

// endsWith reports whether the user's message that was shown last is this one.
func (v *page) endsWith(in string) bool {
	n := len(v.shown.marks)
	return n > 0 && v.shown.marks[n-1].turn && v.shown.msgs[n-1].PlainText() == in
}

// add shows a message of the group of events that ends at seq. A group that a
// compaction has dropped before it was complete is not shown.
func (v *page) add(m llm.Message, seq int64) {
	if seq > v.dropped.upTo {
		v.shown.add(m, seq, false)
	}
}

// addTurn shows the message that begins a user turn.
func (v *page) addTurn(m llm.Message, seq int64) {
	if seq > v.dropped.upTo {
		v.shown.add(m, seq, true)
	}
}

// attribute prevents a text from looking like that of another speaker. A line that begins
// with the tag of an agent of the tree or of the user, such as "[billing] ", gets
// the tag of its speaker in front. The rest of the text stays as it is, byte for
// byte. tagged says that the first line has its tag already.
func (v *page) attribute(speaker, words string, tagged bool) string {
	if strings.IndexByte(words, '[') < 0 {
		return words
	}
	var b strings.Builder
	done, begins := 0, !tagged
	for i, r := range words {
		switch {
		case strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r):
			begins = true
		case begins && !unicode.IsSpace(r) && !invisible(r):
			begins = false
			if r == '[' && v.isTag(words[i+1:]) {
				b.WriteString(words[done:i] + "[" + speaker + "] ")
				done = i
			}
		}
	}
	return b.String() + words[done:]
}

// invisible characters, such as joiners and marks of direction, would hide a tag
// from us and not from a model.
func invisible(r rune) bool { return unicode.In(r, unicode.Cf, unicode.Mn) }

// isTag reports whether s, which follows a bracket, names the user or an agent.
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

func named(n *agent.Node, name string) bool {
	return strings.EqualFold(n.Agent.Name(), name) || slices.ContainsFunc(n.Children(), func(kid *agent.Node) bool { return named(kid, name) })
}

// userWords attributes a message of the user.
func (v *page) userWords(c llm.Content) llm.Content {
	c.Text = v.attribute("user", c.Text, false)
	for i, part := range c.Parts {
		t, ok := part.(llm.TextPart)
		if !ok {
			continue
		}
		if text := v.attribute("user", t.Text, false); text != t.Text {
			c.Parts = slices.Clone(c.Parts) // those of the log stay as they are
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

// withFiles is the output of a call with a line for each file that it has made.
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
