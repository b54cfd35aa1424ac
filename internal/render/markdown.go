package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// Markdown returns a sink that writes a session's events as a document.
func Markdown(w io.Writer, title string) Sink { return &markdown{w: w, title: title} }

type markdown struct {
	w     io.Writer
	title string
	calls map[string]string // calls that wait for their result
	asked map[string]string // the tools that approvals were asked for

	handoffs handoffs
}

func (m *markdown) Event(e *event.Event) {
	if m.calls == nil {
		m.calls, m.asked = make(map[string]string), make(map[string]string)
		fmt.Fprintf(m.w, "# Session %s\n", visible.Line(m.title))
	}
	switch e.Data.(type) {
	case *event.Relay, *event.RelayResolved: // somebody was asked, wherever that was
	default:
		if e.Scope != "" {
			return // what came of it is the result of the call that opened the scope
		}
	}
	switch d := e.Data.(type) {
	case *event.User:
		m.say("user", d.Content.PlainText())
	case *event.Text:
		m.say(e.Agent, d.Content)
	case *event.ToolCall:
		if d.Name != agent.TransferTool {
			m.calls[e.ID] = callLine(d)
		}
	case *event.ToolResult:
		if call, ok := m.calls[e.ID]; ok {
			delete(m.calls, e.ID)
			text, rows := resultLines(d)
			m.note("%s called %s → %s", e.Agent, code(call), text)
			for _, row := range rows {
				fmt.Fprintf(m.w, "> - %s\n", row)
			}
		}
	case *event.Relay:
		m.ask(e, d)
	case *event.RelayResolved:
		m.decided(d)
	case *event.Transfer:
		switch {
		case d.Outcome != event.TransferCommitted:
			m.note("%s → %s %s", d.From, d.To, d.Outcome)
		case d.Reason == "":
			m.note("%s → %s", d.From, d.To)
		default:
			m.note("%s → %s (%s)", d.From, d.To, d.Reason)
		}
	case *event.Route:
		if d.Failed != nil {
			m.note("%s", routed(d))
		}
	case *event.HandoffStatus:
		if text := m.handoffs.news(d); text != "" {
			m.note("%s", text)
		}
	case *event.File:
		m.note("file %s", d)
	case *event.Notice:
		m.note("%s", d.Message)
	case *event.Unknown:
		if text := unreadable(e, d); text != "" {
			m.note("%s", text)
		}
	case *event.Compaction:
		m.note("%s", compacted(e, d))
	case *event.Failure:
		m.note("%s failed: %s", e.Agent, d.Message)
	case *event.HarnessStart, *event.HarnessEnd, *event.Reasoning, *event.ToolProgress, *event.State, *event.Usage, *event.RemoteTask,
		*event.Discard: // not part of what was said
	}
}

func (m *markdown) Finish() {}

// ask shows a question, with all that it is about.
func (m *markdown) ask(e *event.Event, d *event.Relay) {
	m.asked[e.ID] = d.Tool
	if d.Kind == event.RelayInput {
		m.note("%s%s, tool %s asks, call %s:", e.Agent, within(d), d.Tool, d.ToolCallID)
		m.code(asked(d))
		return
	}
	m.note("%s%s asks for approval of %s, call %s, with %s of arguments:", e.Agent, within(d), d.Tool, d.ToolCallID, grouped(len(d.Params), "byte"))
	m.code(visible.Arguments(d.Params))
}

// code writes lines in which nothing is markup.
func (m *markdown) code(lines []string) {
	for _, line := range append([]string{""}, lines...) {
		fmt.Fprintln(m.w, strings.TrimRight(">     "+line, " "))
	}
}

func (m *markdown) decided(d *event.RelayResolved) {
	said := verdict(d) + ": " + m.asked[d.RelayID]
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

// code quotes a line as Markdown code, whatever backquotes it holds.
func code(s string) string {
	if !strings.Contains(s, "`") {
		return "`" + s + "`"
	}
	return "`` " + strings.ReplaceAll(s, "``", "` `") + " ``"
}
