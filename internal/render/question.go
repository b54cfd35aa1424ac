package render

import (
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// Every row of a call's arguments has a mark before it, so that none of them can be
// taken for a line of the command's own, such as a prompt.
const (
	argumentMark = "  │ "
	brokenMark   = "  ┆ " // continues the row above, which was too long for the terminal
)

// Question words what somebody is asked: a call that waits for a decision with all of its
// arguments, in one line if that is all of them, else in rows that follow the line; or what
// a call asks, in rows. columns is the width of the terminal, 0 for none.
func Question(d *event.Relay, columns int) (line string, rows []string) {
	if d.Kind == event.RelayInput {
		return visible.Line(d.Tool) + " asks" + within(d) + ", call " + visible.Line(d.ToolCallID) + ":", visible.Wrap(asked(d), argumentMark, brokenMark, columns)
	}
	waits := " → waits for approval" + within(d) + ", call " + visible.Line(d.ToolCallID)
	if arguments, whole := visible.Inline(d.Params); whole {
		line = visible.Line(d.Tool) + "(" + arguments + ")" + waits
		if columns == 0 || len(visible.Wrap([]string{line}, "    ", "", columns)) == 1 {
			return line, nil
		}
	}
	lines := visible.Arguments(d.Params)
	size := fmt.Sprintf(", with %s of arguments in %s:", grouped(len(d.Params), "byte"), Count(len(lines), "line"))
	return visible.Line(d.Tool) + waits + size, visible.Wrap(lines, argumentMark, brokenMark, columns)
}

// within names the agents around one that asks.
func within(d *event.Relay) string {
	if len(d.Within) == 0 {
		return ""
	}
	return " inside of " + visible.Line(strings.Join(d.Within, " > "))
}

// asked returns the lines of what a call asks, and what the answer has to be.
func asked(d *event.Relay) []string {
	lines := strings.Split(visible.Text(d.Message), "\n")
	if d.Schema != nil {
		lines = append(append(lines, "the answer is JSON of this schema:"), visible.Arguments(d.Schema)...)
	}
	return lines
}

// relay shows a question. Where it is answered next the printer leaves that to the
// conversation, which has the last word of a turn.
func (p *Printer) relay(e *event.Event, d *event.Relay) {
	for i, c := range p.calls {
		if c.id == d.ToolCallID {
			p.calls[i].paused = true
		}
	}
	if p.deciding {
		return
	}
	line, rows := Question(d, p.look.Columns)
	p.line("%s%s", indent(e.Scope), p.look.Paint(Bold, line))
	for _, row := range rows {
		p.line("%s", row)
	}
}
