package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// show writes what somebody is asked, each question whole.
func (p *program) show(w io.Writer, asked []*event.Relay) {
	look := p.lookOf(w)
	var b strings.Builder
	for _, d := range asked {
		line, rows := render.Question(d, look.Columns)
		b.WriteString("  " + look.Paint(render.Bold, line) + "\n")
		for _, row := range rows {
			b.WriteString(row + "\n")
		}
	}
	p.saying.Lock()
	defer p.saying.Unlock()
	_, _ = io.WriteString(w, b.String()) // errors of the output are kept by it
}

// show shows what is asked: in a chat on a terminal page by page, and beside JSON on
// standard error.
func (c *conversation) show(asked []*event.Relay) {
	switch {
	case c.pages != nil:
		for _, d := range asked {
			c.page(d)
		}
	case c.json:
		c.p.show(c.p.Stderr, asked)
	default:
		c.p.show(c.p.Stdout, asked)
	}
}

// page shows a question on the chat's terminal. Who stops reading learns how
// much is left.
func (c *conversation) page(d *event.Relay) {
	look := c.p.lookOf(c.p.Stdout)
	line, rows := render.Question(d, look.Columns)
	fmt.Fprintln(c.p.Stdout, "  "+look.Paint(render.Bold, line))
	most := max(look.Rows-3, 5)
	for shown := 0; len(rows) > 0; {
		n := min(most, len(rows))
		if len(rows) <= most+2 {
			n = len(rows) // a page of one or two rows is not worth a question
		}
		fmt.Fprintln(c.p.Stdout, strings.Join(rows[:n], "\n"))
		rows, shown = rows[n:], shown+n
		if len(rows) > 0 && !c.pages.more(fmt.Sprintf("-- %d of %d rows; Enter shows more, q stops -- ", shown, shown+len(rows))) {
			c.p.say("%d of %s are not shown: /show %s shows all", len(rows), render.Count(shown+len(rows), "row"), visible.Line(d.ToolCallID))
			return
		}
	}
}

// asked reads a session's log. It returns the questions that are decided in this session, and the fold.
func (db *database) asked(ctx context.Context, key session.Key) ([]*event.Relay, *session.Fold, error) {
	fold, err := db.fold(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	info, _, err := session.Find(ctx, db, key)
	shared := fold.SharedQuestions(info.ParentSeq)
	return slices.DeleteFunc(fold.Questions(), func(q *event.Relay) bool { return slices.Contains(shared, q) }), fold, err
}

// answer makes the decision that gives words to what a call asks.
func (c *conversation) answer(ctx context.Context, call, words string) (runner.Decision, error) {
	fold, err := c.look(ctx)
	if err != nil {
		return runner.Decision{}, err
	}
	for _, d := range fold.Questions() {
		if d.ToolCallID == call && d.Kind == event.RelayInput {
			return runner.Decision{CallID: call, Approved: true, Content: live.Content(d, words)}, nil
		}
	}
	return runner.Decision{}, usagef("call %s of session %s asks nothing", render.Cut(call, 40), c.key.ID)
}
