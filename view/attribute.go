package view

import (
	"slices"
	"strings"
	"unicode"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// attribute prevents words from looking like somebody else's. A line that begins
// with the tag of an agent of the tree or of the user, such as "[billing] ", gets
// the tag of its speaker in front. All other words stay as they are, byte for
// byte. tagged says that the first line has its tag already.
func (v *View) attribute(speaker, words string, tagged bool) string {
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

// isTag reports whether s, which follows a bracket, names somebody.
func (v *View) isTag(s string) bool {
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

// userWords attributes what a user has said.
func (v *View) userWords(c llm.Content) llm.Content {
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
