package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

// Every row of a call's arguments has a mark before it, so that none of them can be
// taken for a line of the command's own, such as a prompt.
const (
	argumentMark = "  │ "
	brokenMark   = "  ┆ " // goes on with the row above, which was too long for the terminal
)

// askRows tells of a call that somebody is to decide about, with all of its arguments:
// in one line if that is all of them, else in rows that follow the line. columns is the
// width of the terminal, 0 for none.
func askRows(d *event.Relay, columns int) (line string, rows []string) {
	waits := " → waits for approval, call " + oneLine(d.ToolCallID)
	if arguments, whole := visible.Inline(d.Params); whole {
		line = oneLine(d.Tool) + "(" + arguments + ")" + waits
		if columns == 0 || len(visible.Wrap([]string{line}, "    ", "", columns)) == 1 {
			return line, nil
		}
	}
	lines := visible.Arguments(d.Params)
	size := fmt.Sprintf(", with %s of arguments in %s:", grouped(len(d.Params), "byte"), count(len(lines), "line"))
	return oneLine(d.Tool) + waits + size, visible.Wrap(lines, argumentMark, brokenMark, columns)
}

// grouped is count for numbers that may be large.
func grouped(n int, noun string) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return strings.Replace(count(n, noun), strconv.Itoa(n), digits, 1)
}

// relay shows a call that waits for an approval. Where it is decided next the printer
// leaves that to the conversation, which has the last word of a turn.
func (p *printer) relay(e *event.Event, d *event.Relay) {
	for i, c := range p.calls {
		if c.id == d.ToolCallID {
			p.calls[i].paused = true
		}
	}
	if p.deciding {
		return
	}
	line, rows := askRows(d, p.look.columns)
	p.line("%s%s", indent(e.Scope), p.look.paint(bold, line))
	for _, row := range rows {
		p.line("%s", row)
	}
}

// show writes calls that wait, each whole.
func (p *program) show(w io.Writer, asked []*event.Relay) {
	look := p.lookOf(w)
	var b strings.Builder
	for _, d := range asked {
		line, rows := askRows(d, look.columns)
		b.WriteString("  " + look.paint(bold, line) + "\n")
		for _, row := range rows {
			b.WriteString(row + "\n")
		}
	}
	p.saying.Lock()
	defer p.saying.Unlock()
	_, _ = io.WriteString(w, b.String()) // errors of the output are kept by it
}

// show shows calls that wait: in a chat on a terminal page by page, and beside JSON on
// standard error.
func (c *conversation) show(asked []*event.Relay) {
	switch {
	case c.pages != nil:
		for _, d := range asked {
			c.page(d)
		}
	case c.p.flags.json:
		c.p.show(c.p.Stderr, asked)
	default:
		c.p.show(c.p.Stdout, asked)
	}
}

// page shows a call that waits on the chat's terminal. Who stops reading is told how
// much is left.
func (c *conversation) page(d *event.Relay) {
	look := c.p.lookOf(c.p.Stdout)
	line, rows := askRows(d, look.columns)
	fmt.Fprintln(c.p.Stdout, "  "+look.paint(bold, line))
	most := max(look.rows-3, 5)
	for shown := 0; len(rows) > 0; {
		n := min(most, len(rows))
		if len(rows) <= most+2 {
			n = len(rows) // a page of one or two rows is not worth a question
		}
		fmt.Fprintln(c.p.Stdout, strings.Join(rows[:n], "\n"))
		rows, shown = rows[n:], shown+n
		if len(rows) > 0 && !c.pages.more(fmt.Sprintf("-- %d of %d rows; Enter shows more, q stops -- ", shown, shown+len(rows))) {
			c.p.say("%d of %s are not shown: /show %s shows all", len(rows), count(shown+len(rows), "row"), oneLine(d.ToolCallID))
			return
		}
	}
}

// asked reads a session's log: what it amounts to, and the calls that somebody is
// asked about.
func (db *database) asked(ctx context.Context, key session.Key) ([]*event.Relay, *session.Fold, error) {
	fold := &session.Fold{}
	for e, err := range db.Load(ctx, key, 0) {
		if err != nil {
			return nil, nil, err
		}
		fold.Apply(e)
	}
	asked, err := session.Questions(ctx, db, key, fold)
	return asked, fold, err
}
