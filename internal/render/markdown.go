package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

// Markdown returns a sink that writes a session's events as a Markdown document.
func Markdown(w io.Writer, title string) Sink { return &markdown{w: w, title: title} }

type markdown struct {
	w          io.Writer
	title      string
	begun      bool
	log        session.Reader
	eventLines eventLines
}

func (m *markdown) Event(e *event.Event) {
	rec := m.log.Next(e)
	if !m.begun {
		m.begun = true
		fmt.Fprintf(m.w, "# Session %s\n", visible.Line(m.title))
	}
	switch e.Data.(type) {
	case *event.Relay, *event.RelayResolved: // questions, in any scope
	default:
		if e.Scope != "" {
			return // the result of the call that opened the scope contains it
		}
	}
	switch d := e.Data.(type) {
	case *event.User:
		m.say("user", d.Content.PlainText())
	case *event.Text:
		m.say(e.Agent, d.Content)
	case *event.ToolResult:
		if rec.Call == nil || d.Name == agent.TransferTool {
			break
		}
		text, rows := resultLines(d)
		m.note("%s called %s → %s", e.Agent, code(callLine(rec.Call.Data.(*event.ToolCall))), text)
		for _, row := range rows {
			fmt.Fprintf(m.w, "> - %s\n", row)
		}
	case *event.Relay:
		m.ask(e, d)
	case *event.RelayResolved:
		m.decided(rec, d)
	case *event.Transfer:
		line := transferred(d)
		if d.Outcome == event.TransferCommitted && d.Reason != "" {
			line += " (" + d.Reason + ")"
		}
		m.note("%s", line)
	default:
		if line, _ := m.eventLines.describe(e); line != "" {
			m.note("%s", line)
		}
	}
}

func (m *markdown) Finish() {}

// ask writes a question with all of its content.
func (m *markdown) ask(e *event.Event, d *event.Relay) {
	if d.Kind == event.RelayInput {
		m.note("%s%s, tool %s asks, call %s:", e.Agent, within(d), d.Tool, d.ToolCallID)
		m.code(asked(d))
		return
	}
	m.note("%s%s asks for approval of %s, call %s, with %s of arguments:", e.Agent, within(d), d.Tool, d.ToolCallID, grouped(len(d.Params), "byte"))
	m.code(visible.Arguments(d.Params))
}

// code writes lines as a code block.
func (m *markdown) code(lines []string) {
	for _, line := range append([]string{""}, lines...) {
		fmt.Fprintln(m.w, strings.TrimRight(">     "+line, " "))
	}
}

func (m *markdown) decided(rec session.Record, d *event.RelayResolved) {
	said := verdict(d) + ": "
	if rec.Question != nil {
		said += rec.Question.Data.(*event.Relay).Tool
	}
	if d.Content != nil {
		said += " → " + event.OutputText(d.Content)
	}
	if d.Reason != "" {
		said += " (" + d.Reason + ")"
	}
	m.note("%s", said)
}

func (m *markdown) say(who, words string) {
	if words = strings.TrimSpace(visible.Text(words)); words != "" {
		fmt.Fprintf(m.w, "\n**%s:** %s\n", visible.Line(who), words)
	}
}

func (m *markdown) note(format string, args ...any) {
	fmt.Fprintf(m.w, "\n> %s\n", visible.Line(fmt.Sprintf(format, args...)))
}

// code quotes a line as inline code, even if it contains backquotes.
func code(s string) string {
	if !strings.Contains(s, "`") {
		return "`" + s + "`"
	}
	return "`` " + strings.ReplaceAll(s, "``", "` `") + " ``"
}
