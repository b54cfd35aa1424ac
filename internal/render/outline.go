package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/visible"
)

// outline draws a node with its descendants. show writes the lines of one node: its own line begins with first, and the
// lines below it with under.
func outline[N any](n N, first, rest string, children func(N) []N, show func(n N, first, under string)) {
	below := children(n)
	under := rest + "  "
	if len(below) > 0 {
		under = rest + "│ "
	}
	show(n, first, under)
	for i, child := range below {
		if i == len(below)-1 {
			outline(child, rest+"└─ ", rest+"   ", children, show)
		} else {
			outline(child, rest+"├─ ", rest+"│  ", children, show)
		}
	}
}

// agentLine returns the line of an agent in a drawing for a terminal.
func agentLine(name, description, active string, l Terminal) string {
	line := l.Paint(cyan, visible.Line(name))
	if name == active {
		line += l.Paint(Green, " ← active")
	}
	if d := visible.Line(description); d != "" {
		line += "  " + d
	}
	return line
}

// Outline is the drawing of an agent that runs elsewhere, with its sub-agents.
type Outline struct {
	Name, Description, Remote string
	Tools, Targets            []string
	SubAgents                 []*Outline
}

// Draw draws the agents like [Tree], and marks the active one.
func (o *Outline) Draw(w io.Writer, l Terminal, active string) {
	below := func(o *Outline) []*Outline { return o.SubAgents }
	outline(o, "", "", below, func(o *Outline, first, under string) {
		fmt.Fprintln(w, first+agentLine(o.Name, o.Description, active, l))
		otherTargets := slices.DeleteFunc(slices.Clone(o.Targets), func(name string) bool {
			return slices.ContainsFunc(o.SubAgents, func(child *Outline) bool { return child.Name == name })
		})
		for _, line := range []struct{ what, text string }{{"remote: ", o.Remote}, {"tools: ", strings.Join(o.Tools, ", ")}, {"may also transfer to: ", strings.Join(otherTargets, ", ")}} {
			if line.text != "" {
				fmt.Fprintln(w, l.Paint(faint, under+"  "+line.what+visible.Line(line.text)))
			}
		}
	})
}
