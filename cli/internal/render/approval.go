package render

import (
	"fmt"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// Every row of a call's arguments has a mark before it, so that none of them can be
// taken for a line of the command's own, such as a prompt.
const (
	argumentMark = "  │ "
	brokenMark   = "  ┆ " // continues the row above, which was too long for the terminal
)

// Approval words a call that somebody is to decide about, with all of its arguments:
// in one line if that is all of them, else in rows that follow the line. columns is the
// width of the terminal, 0 for none.
func Approval(d *event.Relay, columns int) (line string, rows []string) {
	waits := " → waits for approval, call " + visible.Line(d.ToolCallID)
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

// relay shows a call that waits for an approval. Where it is decided next the printer
// leaves that to the conversation, which has the last word of a turn.
func (p *Printer) relay(e *event.Event, d *event.Relay) {
	for i, c := range p.calls {
		if c.id == d.ToolCallID {
			p.calls[i].paused = true
		}
	}
	if p.deciding {
		return
	}
	line, rows := Approval(d, p.look.Columns)
	p.line("%s%s", indent(e.Scope), p.look.Paint(Bold, line))
	for _, row := range rows {
		p.line("%s", row)
	}
}
