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

// Policy sets how much of the conversation an agent's model sees. The zero value is [Full]. As an edge option for
// agent.Via, a policy replaces the agent's own. A Policy is immutable.
type Policy struct {
	turns     int // the n of LastTurns; 0: all turns
	facts     int // the n of WithFacts; 0: whole
	hideFacts bool
	hideOther bool
	keep      func(*event.Event) bool
	redact    func(string) string
	files     bool // WithFiles
	lines     bool // WithoutMedia
}

// Full shows everything: the user's messages, the agent's own turns unchanged, other agents' texts with their names,
// and the whole inputs and outputs of their tools.
func Full() Policy { return Policy{} }

// TextOnly omits other agents' tool calls.
func TextOnly() Policy { return Policy{hideFacts: true} }

// Own omits everything that other agents said and did.
func Own() Policy { return Policy{hideFacts: true, hideOther: true} }

// LastTurns shows at least the last n user turns. It trims in steps, from 2n turns to n, so that the beginning of the
// request stays the same for n turns. n below 1 counts as 1.
func LastTurns(n int) Policy { return Policy{turns: max(n, 1)} }

// Func shows only those events of other agents for which keep returns true. keep must be a pure function of the
// event.
func Func(keep func(e *event.Event) bool) Policy { return Policy{keep: keep} }

// WithFiles returns the policy with the files that agents and tools created as parts of messages, for models that
// read images or files. Without it, each file is one line with its name.
func (p Policy) WithFiles() Policy {
	p.files = true
	return p
}

// WithoutMedia returns the policy with a line instead of each image and file that the user sent, for models that read
// neither. Tools can read a file that has a name.
func (p Policy) WithoutMedia() Policy {
	p.lines = true
	return p
}

// WithFacts returns the policy with at most n bytes of the input and of the output of each tool call of other agents.
// n below 1 shows them whole, which is the default. If something is cut off, the text says how much.
func (p Policy) WithFacts(n int) Policy {
	p.facts = max(n, 0)
	return p
}

// fact cuts a text at a character boundary if the policy limits it.
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

// For returns the policy of an agent in its place in a tree: the policy of the edge if it has one, otherwise own. An
// edge cannot remove the redaction of own: the redaction of the edge is applied after it.
func For(n *agent.Node, own Policy) Policy {
	p, ok := n.Edge.History.(Policy)
	if !ok {
		return own
	}
	edge := p.redact
	p.redact = own.redact
	return p.Redact(edge)
}

// Parse parses a policy's name: full, text_only, own or last_turns:N. The suffixes +facts:N ([Policy.WithFacts]),
// +files ([Policy.WithFiles]) and +no_media ([Policy.WithoutMedia]) may follow, in this order.
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

// String returns the policy's name in the form that [Parse] reads. If a function chooses the events, or something is
// redacted, a remark in parentheses follows, which Parse does not read.
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

// Whole reports whether the policy hides nothing, so that all agents with it see the same conversation.
func (p Policy) Whole() bool {
	p.files, p.lines = false, false
	return p.String() == "full"
}

// ByFunction reports whether a function chooses or changes what the policy shows.
func (p Policy) ByFunction() bool { return p.keep != nil || p.redact != nil }

// HidesFacts reports whether the policy hides an event of another agent's tool call: the call, its progress or its
// result.
func (p Policy) HidesFacts(e *event.Event) bool { return p.hideFacts || !p.shows(e) }

// HidesSome reports whether the policy may hide such events.
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

// withoutMedia replaces images and files by lines if the policy says so.
func (p Policy) withoutMedia(c llm.Content) llm.Content {
	if !p.lines {
		return c
	}
	return describeMedia(c, "")
}

// describeMedia replaces images and files by lines that end with a remark.
func describeMedia(c llm.Content, remark string) llm.Content {
	c.Parts = slices.Clone(c.Parts) // the event in the log must not change
	for i, part := range c.Parts {
		if m, ok := part.(llm.Media); ok {
			f := event.File{Name: event.FileName(m.Name, "without a name"), MediaType: m.MediaType, Size: int64(len(m.Data))}
			line := f.String()
			if m.URL != "" {
				line = f.Name + ", at an address"
			}
			c.Parts[i] = llm.TextPart{Text: "[" + string(m.Kind) + " " + oneLine(line) + remark + "]"}
		}
	}
	return c
}

var lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\v", " ", "\f", " ", "\u0085", " ", "\u2028", " ", "\u2029", " ")

// quoted returns a text of several lines as one line, a JSON string. It returns other texts unchanged.
func quoted(s string) string {
	if one := oneLine(s); one == s {
		return s
	}
	return oneLine(string(event.EncodeJSON(s)))
}

// oneLine replaces line breaks, so that a tool's output cannot look like lines of the conversation, such as those of
// other agents.
func oneLine(s string) string { return lineBreaks.Replace(s) }
