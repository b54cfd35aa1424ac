package render

import (
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// Every row of a call's arguments begins with a mark, so that none looks like a line of the command, such as a prompt.
const (
	argumentMark = "  │ "
	brokenMark   = "  ┆ " // continues a row that was too long for the terminal
)

// Question describes a question. For a waiting call, line contains all arguments if they fit; otherwise rows contain
// them. For a tool that asks, rows contain its question. columns is the width of the terminal, or 0.
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

// within names the agents that contain the asking one.
func within(d *event.Relay) string {
	if len(d.Within) == 0 {
		return ""
	}
	return " inside of " + visible.Line(strings.Join(d.Within, " > "))
}

// asked returns the lines of a tool's question, and the required form of the answer.
func asked(d *event.Relay) []string {
	lines := strings.Split(visible.Text(d.Message), "\n")
	if d.Schema != nil {
		lines = append(append(lines, "the answer is JSON of this schema:"), visible.Arguments(d.Schema)...)
	}
	return lines
}

// relay prints a question. In a conversation, the caller prints it at the end of the turn instead.
func (p *Printer) relay(e *event.Event, d *event.Relay) {
	for i, c := range p.calls {
		if c.id == d.ToolCallID {
			p.calls[i].asked = true
		}
	}
	if p.hideQuestions {
		return
	}
	line, rows := Question(d, p.terminal.Columns)
	p.line("%s%s", indent(e.Scope), p.terminal.Paint(Bold, line))
	for _, row := range rows {
		p.line("%s", row)
	}
}
