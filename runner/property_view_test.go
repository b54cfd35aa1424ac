package runner_test

import (
	"regexp"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// thinks begins every thought of a model, and nothing else.
const thinks = "thought: "

var speaker = regexp.MustCompile(`^\[([a-z0-9_]+)\] (.*)`)

// checkView holds a request against what its agent may see: nobody's thoughts but its
// own, no transfer of its own that came about, and what its policy shows.
func (w *world) checkView(m *plannedModel, req *llm.Request) {
	for i := range req.Messages {
		msg := &req.Messages[i]
		texts := []string{msg.Text}
		for _, p := range msg.Parts {
			switch p := p.(type) {
			case llm.TextPart:
				texts = append(texts, p.Text)
			case llm.ToolResult:
				texts = append(texts, p.Output)
				if strings.HasPrefix(p.Output, "Transferred to ") && !m.shares {
					w.problem("request of %s: it sees a transfer of its own: %v", m.name, msg)
				}
			case llm.ToolCall:
				target, own := strings.CutPrefix(p.Name, "transfer_to_")
				own = own && target != "" && p.Name != agent.TransferTool
				named := strings.Contains(p.Arguments, `"agent_name":"a`)
				if own && (named || !m.each) || p.Name == agent.TransferTool && named && m.each {
					w.problem("request of %s: a transfer by a name that it is not offered: %v", m.name, p)
				}
			case llm.Reasoning:
				if m.history.redacts && strings.Contains(p.Text, "Hello") {
					w.problem("request of %s: not redacted: %v", m.name, msg)
				}
			}
		}
		for _, text := range texts {
			w.checkWords(m, msg, text)
		}
	}
}

func (w *world) checkWords(m *plannedModel, msg *llm.Message, text string) {
	wrong := func(what string) { w.problem("request of %s: %s: %q", m.name, what, text) }
	if strings.Contains(text, thinks) {
		wrong("a thought")
	}
	if m.history.redacts && strings.Contains(text, "Hello") {
		wrong("not redacted")
	}
	if msg.Role != llm.RoleUser {
		return
	}
	if strings.Contains(strings.ReplaceAll(text, "\n[user] [user] ", ""), "\n[user] ") { // the user's own are attributed to the user
		wrong("words that pass for the user's")
	}
	said := speaker.FindStringSubmatch(text)
	if m.inner || said == nil || said[1] == "user" {
		return
	}
	transferred := strings.HasPrefix(said[2], "transferred the conversation to you") || strings.HasPrefix(said[2], "returned the conversation to you") ||
		strings.HasPrefix(said[2], "did not accept the conversation") ||
		said[1] == agent.Human && said[2] == "handed the conversation back to you." || m.shares && strings.HasPrefix(said[2], "transferred the conversation to ") ||
		m.shares && said[1] == agent.Human && strings.HasPrefix(said[2], "handed the conversation back to ")
	called := strings.HasPrefix(said[2], "called ")
	switch known := w.names; {
	case said[1] == agent.Human && w.desk != nil && (transferred || !m.history.own):
	case !strings.HasPrefix(said[1], "a"), len(said[1]) > len(known[len(known)-1])+1:
		wrong("words of no agent of the conversation")
	case transferred && strings.HasPrefix(said[2], "transferred the conversation to you, "+m.name+": ") && w.hides[m.name]:
		wrong("a reason that is hidden")
	case transferred:
	case m.history.own, m.history.words && called:
		wrong("words of others that its policy hides")
	case called && strings.ContainsAny(text, "\r\n"):
		wrong("a line about a call that is several")
	}
}

// checkUser: a model is always asked about what the user said last.
func (w *world) checkUser(s sent) {
	if s.key != s1 || s.redacts {
		return
	}
	var last *event.User
	for _, e := range w.log[:s.seq] {
		if u, ok := e.Data.(*event.User); ok {
			last = u
		}
	}
	for i := range s.req.Messages {
		m := &s.req.Messages[i]
		said, asks := m.PlainText(), i == len(s.req.Messages)-1 && candidates(s.req) != nil
		if m.Role == llm.RoleUser && (said == last.Content.PlainText() || asks && asksAbout(said, last.Content.PlainText())) {
			return
		}
	}
	w.t.Fatalf("%s at %d was not asked what the user has said last: %v", s.agent, s.seq, s.req.Messages)
}
