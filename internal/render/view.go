package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// View prints a request to a model.
func View(w io.Writer, l Terminal, req *llm.Request) {
	say := func(role, words string) {
		fmt.Fprintf(w, "%s: %s\n", l.Paint(cyan, role), visible.Text(strings.TrimSpace(words)))
	}
	if req.System != "" {
		say("system", req.System)
	}
	for _, m := range req.Messages {
		if words := m.PlainText(); words != "" {
			say(string(m.Role), words)
		}
		for _, part := range m.Parts {
			switch part := part.(type) {
			case llm.Media:
				fmt.Fprintf(w, "  (%s)\n", visible.Line(chatform.Media(part)))
			case llm.ToolCall:
				fmt.Fprintf(w, "  %s calls %s\n", m.Role, callLine(&event.ToolCall{Name: part.Name, Input: event.ObjectInput(part.Arguments)}))
			case llm.ToolResult:
				say("tool "+visible.Line(part.Name), part.Output)
			}
		}
	}
	var tools []string
	for _, t := range req.Tools {
		tools = append(tools, visible.Line(t.Name))
	}
	if len(tools) > 0 {
		fmt.Fprintf(w, "%s\n", l.Paint(faint, "(tools: "+strings.Join(tools, ", ")+")"))
	}
}
