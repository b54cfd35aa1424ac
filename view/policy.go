package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Policy says how much of the conversation an agent's model sees. The zero
// value is [Full]. A policy is also an edge option for agent.Via, where it
// replaces the agent's own.
type Policy struct {
	turns     int // 0: all
	facts     int // 0: all of each
	hideFacts bool
	hideOther bool
	keep      func(*event.Event) bool
	redact    func(string) string
	files     bool // are parts
	lines     bool // of what users send
}

// Full shows everything: the user's words, the agent's own turns as they were,
// other agents' words with their names, and what their tools were given and have returned, whole.
func Full() Policy { return Policy{} }

// TextOnly leaves out what other agents' tools did.
func TextOnly() Policy { return Policy{hideFacts: true} }

// Own leaves out all that other agents said and did.
func Own() Policy { return Policy{hideFacts: true, hideOther: true} }

// LastTurns shows the last n user turns at least. It trims in steps, from 2n
// turns down to n, so that the beginning of the request stays the same for n
// turns. n below 1 counts as 1.
func LastTurns(n int) Policy { return Policy{turns: max(n, 1)} }

// Func shows of other agents' events only those that keep allows. keep must be
// a pure function of the event.
func Func(keep func(e *event.Event) bool) Policy { return Policy{keep: keep} }

// WithFiles returns the policy with the files that agents and tools have made as parts of
// messages, for models that read images or files. Without it, each is one line with its name.
func (p Policy) WithFiles() Policy {
	p.files = true
	return p
}

// WithoutMedia returns the policy with one line in the place of each image and file that
// the user has sent, for models that read neither. Tools can read what has a name.
func (p Policy) WithoutMedia() Policy {
	p.lines = true
	return p
}

// WithFacts returns the policy with at most n bytes each of the arguments and the output of other
// agents' tool calls; n below 1 shows them whole, as without it. Where something is cut off, the
// text says how much.
func (p Policy) WithFacts(n int) Policy {
	p.facts = max(n, 0)
	return p
}

// fact cuts a text at the border of a character if the policy wants less of it.
func (p Policy) fact(s string) string {
	n := p.facts
	if n == 0 || len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return fmt.Sprintf("%s… (%d of %d bytes are not shown)", s[:n], len(s)-n, len(s))
}

// ApplyEdge implements agent.EdgeOption.
func (p Policy) ApplyEdge(e *agent.Edge) { e.History = p }

// For returns the policy that holds for an agent in its place: that of the edge
// if it has one, else own. An edge cannot lift what own redacts: its own
// redaction comes after that.
func For(n *agent.Node, own Policy) Policy {
	p, ok := n.Edge.History.(Policy)
	if !ok {
		return own
	}
	edge := p.redact
	p.redact = own.redact
	return p.Redact(edge)
}

// Parse reads a policy's name: full, text_only, own or last_turns:N. After it, +facts:N is
// [Policy.WithFacts], +files [Policy.WithFiles], and +no_media [Policy.WithoutMedia], in this order.
func Parse(s string) (Policy, error) {
	if before, ok := strings.CutSuffix(s, "+files"); ok {
		p, err := Parse(before)
		return p.WithFiles(), err
	}
	if before, ok := strings.CutSuffix(s, "+no_media"); ok {
		p, err := Parse(before)
		return p.WithoutMedia(), err
	}
	if before, arg, ok := strings.Cut(s, "+facts:"); ok {
		n, err := strconv.Atoi(strings.TrimSpace(arg))
		if err != nil || n < 1 {
			return Policy{}, fmt.Errorf("view %q: +facts:N needs a number of bytes of at least 1", s)
		}
		p, err := Parse(before)
		return p.WithFacts(n), err
	}
	switch name, arg, _ := strings.Cut(s, ":"); {
	case s == "full":
		return Full(), nil
	case s == "text_only":
		return TextOnly(), nil
	case s == "own":
		return Own(), nil
	case name == "last_turns":
		if n, err := strconv.Atoi(strings.TrimSpace(arg)); err == nil && n > 0 {
			return LastTurns(n), nil
		}
	}
	return Policy{}, fmt.Errorf("view %q: full, text_only, own or last_turns:N are known, with N from 1", s)
}

// String returns the policy's name, as [Parse] reads it. What no name says is put behind it in
// brackets: that a function chooses the events, or that something is redacted.
func (p Policy) String() string {
	name := "full"
	switch {
	case p.turns > 0:
		name = "last_turns:" + strconv.Itoa(p.turns)
	case p.hideOther:
		name = "own"
	case p.hideFacts:
		name = "text_only"
	}
	for _, more := range []struct {
		is    bool
		words string
	}{{p.facts > 0, "+facts:" + strconv.Itoa(p.facts)}, {p.files, "+files"}, {p.lines, "+no_media"}, {p.keep != nil, " (chosen by a function)"}, {p.redact != nil, " (redacted)"}} {
		if more.is {
			name += more.words
		}
	}
	return name
}

// Whole reports whether the policy hides nothing: every agent with this policy sees the same of a conversation.
func (p Policy) Whole() bool {
	p.files, p.lines = false, false
	return p.String() == "full"
}

// ByFunction reports whether a function of the program chooses or changes what the policy shows.
func (p Policy) ByFunction() bool { return p.keep != nil || p.redact != nil }

// HidesFacts reports whether the policy hides a tool call of another agent, its progress or its result.
func (p Policy) HidesFacts(e *event.Event) bool { return p.hideFacts || !p.shows(e) }

// HidesSome reports whether there can be such facts.
func (p Policy) HidesSome() bool { return p.hideFacts || p.hideOther || p.keep != nil }

func (p Policy) shows(e *event.Event) bool {
	switch {
	case p.hideOther:
		return false
	case p.keep != nil:
		return p.keep(e)
	}
	return true
}

// withoutMedia puts lines in the place of images and files, if the policy says so.
func (p Policy) withoutMedia(c llm.Content) llm.Content {
	if !p.lines {
		return c
	}
	c.Parts = slices.Clone(c.Parts) // those of the log stay as they are
	for i, part := range c.Parts {
		if m, ok := part.(llm.Media); ok {
			f := event.File{Name: event.FileName(m.Name, "without a name"), MediaType: m.MediaType, Size: int64(len(m.Data))}
			line := f.String()
			if m.URL != "" {
				line = f.Name + ", at an address"
			}
			c.Parts[i] = llm.TextPart{Text: "[" + string(m.Kind) + " " + oneLine(line) + "]"}
		}
	}
	return c
}

var lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\v", " ", "\f", " ", "\u0085", " ", "\u2028", " ", "\u2029", " ")

// quoted shows a text of several lines as one line, a JSON string.
func quoted(s string) string {
	if one := oneLine(s); one == s {
		return s
	}
	return oneLine(string(event.EncodeJSON(s)))
}

// oneLine keeps a tool's output from looking like lines of the conversation,
// such as those of other agents.
func oneLine(s string) string { return lineBreaks.Replace(s) }
