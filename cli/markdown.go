package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/agent"
)

// markdown writes a session's events as a document.
type markdown struct {
	w     io.Writer
	title string
	calls map[string]string // calls that wait for their result
}

func (m *markdown) event(e *agent.Event) {
	if m.calls == nil {
		m.calls = make(map[string]string)
		fmt.Fprintf(m.w, "# Session %s\n", oneLine(m.title))
	}
	if e.Scope != "" {
		return // what came of it is the result of the call that opened the scope
	}
	switch d := e.Data.(type) {
	case *agent.User:
		m.say("user", d.Content.PlainText())
	case *agent.Text:
		m.say(e.Agent, d.Content)
	case *agent.ToolCall:
		if d.Name != agent.TransferTool {
			m.calls[e.ID] = callLine(d)
		}
	case *agent.ToolResult:
		if call, ok := m.calls[e.ID]; ok {
			delete(m.calls, e.ID)
			told, rows := resultLines(d)
			m.note("%s called %s → %s", e.Agent, code(call), told)
			for _, row := range rows {
				fmt.Fprintf(m.w, "> - %s\n", row)
			}
		}
	case *agent.Transfer:
		switch {
		case d.Outcome != agent.TransferCommitted:
			m.note("%s → %s %s", d.From, d.To, d.Outcome)
		case d.Reason == "":
			m.note("%s → %s", d.From, d.To)
		default:
			m.note("%s → %s (%s)", d.From, d.To, d.Reason)
		}
	case *agent.Notice:
		m.note("%s", d.Message)
	case *agent.Unknown:
		if told := unreadable(e, d); told != "" {
			m.note("%s", told)
		}
	case *agent.Compaction:
		m.note("%s", compacted(e, d))
	case *agent.Failure:
		m.note("%s failed: %s", e.Agent, d.Message)
	}
}

func (m *markdown) finish() {}

func (m *markdown) say(who, words string) {
	if words = strings.TrimSpace(visible(words)); words != "" {
		fmt.Fprintf(m.w, "\n**%s:** %s\n", oneLine(who), words)
	}
}

func (m *markdown) note(format string, args ...any) {
	fmt.Fprintf(m.w, "\n> %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// code quotes a line as Markdown code, whatever backquotes it holds.
func code(s string) string {
	if !strings.Contains(s, "`") {
		return "`" + s + "`"
	}
	return "`` " + strings.ReplaceAll(s, "``", "` `") + " ``"
}
