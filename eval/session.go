package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// WriteSession writes the log of a session as a file with one case that [Load] reads: the user's messages, the active
// agents, the called tools, and the decisions about waiting calls. Other texts are in comments, because models never
// repeat a text. The error is that of the events, or the writer's.
func WriteSession(w io.Writer, name string, events iter.Seq2[*event.Event, error]) error {
	var s recorded
	for rec, err := range session.Records(events) {
		if err != nil {
			return err
		}
		s.take(rec)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Session %s as a case of arbor eval. What was said is in comments: expect what matters of it with says.\n", visible.Line(name))
	if !slices.ContainsFunc(s.turns, (*recordedTurn).whole) {
		b.WriteString("# No user has said anything in it that an agent took up.\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "cases:\n  - name: %s\n", scalar(cmp.Or(strings.TrimSpace(name), "session")))
	if len(s.state) > 0 {
		fmt.Fprintf(&b, "    state: %s\n", value(s.state))
	}
	b.WriteString("    turns:\n")
	for i, t := range s.turns {
		t.write(&b, i+1)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// recorded contains the turns of a log.
type recorded struct {
	state map[string]any // before the first turn
	turns []*recordedTurn
}

type recordedTurn struct {
	user               *event.User
	run                string // of the user's message
	path, tools, asked []string
	approve, deny      []string
	reply              map[string]any
	comments           []string
}

// whole reports whether the turn can be played again.
func (t *recordedTurn) whole() bool {
	return len(t.path) > 0 && strings.TrimSpace(t.user.Content.PlainText()) != ""
}

func (s *recorded) take(e session.Record) {
	if u, ok := e.Data.(*event.User); ok && e.Scope == "" {
		t := &recordedTurn{user: u, run: e.RunID, reply: map[string]any{}}
		if slices.ContainsFunc(u.Content.Parts, func(p llm.Part) bool { _, words := p.(llm.TextPart); return !words }) {
			t.comment("the user's message has more than text; the rest is left out")
		}
		s.turns = append(s.turns, t)
		return
	}
	if len(s.turns) == 0 {
		return
	}
	t := s.turns[len(s.turns)-1]
	outer := e.Scope == ""
	switch d := e.Data.(type) {
	case *event.State:
		switch {
		case e.RunID != t.run:
		case len(s.turns) == 1:
			s.state = d.Delta
		default:
			t.comment("the state was changed here: %s", event.EncodeJSON(d.Delta))
		}
	case *event.HarnessStart:
		if outer && len(t.path) == 0 {
			t.path = []string{e.Agent}
		}
	case *event.Transfer:
		if outer && d.Outcome == event.TransferCommitted {
			t.path = append(t.path, d.To)
		}
	case *event.ToolCall:
		if d.Name != agent.TransferTool {
			add(&t.tools, d.Name)
		}
	case *event.Text:
		if outer {
			t.comment("%s said: %s", e.Agent, d.Content)
		}
	case *event.Relay:
		add(&t.asked, d.Tool)
	case *event.RelayResolved:
		if e.Question == nil {
			break
		}
		switch asked := e.Question.Data.(*event.Relay); {
		case !d.Approved:
			add(&t.deny, asked.Tool)
		case asked.Kind == event.RelayInput:
			t.reply[asked.Tool] = d.Content
		default:
			add(&t.approve, asked.Tool)
		}
	case *event.Failure:
		if outer {
			t.comment("%s failed: %s", e.Agent, d.Message)
		}
	}
}

func add(to *[]string, name string) {
	if !slices.Contains(*to, name) {
		*to = append(*to, name)
	}
}

func (t *recordedTurn) comment(format string, args ...any) {
	t.comments = append(t.comments, visible.Cut(visible.Line(fmt.Sprintf(format, args...)), shown))
}

func (t *recordedTurn) write(b *strings.Builder, number int) {
	if !t.whole() {
		fmt.Fprintf(b, "      # Turn %d is left out: it has no text of the user, or no agent answered it.\n", number)
		return
	}
	fmt.Fprintf(b, "      - say: %s\n", scalar(t.user.Content.PlainText()))
	line := func(key, text string) {
		if text != "" {
			fmt.Fprintf(b, "        %s: %s\n", key, text)
		}
	}
	if len(t.user.Metadata) > 0 {
		line("metadata", value(t.user.Metadata))
	}
	line("path", scalar(strings.Join(t.path, " > ")))
	line("tools", list(t.tools))
	line("asks", list(t.asked))
	line("approve", list(t.approve))
	line("deny", list(t.deny))
	if len(t.reply) > 0 {
		line("reply", value(t.reply))
	}
	for _, c := range t.comments {
		b.WriteString("        # " + c + "\n")
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = scalar(name)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// scalar returns a text as YAML: unquoted if it has no special meaning, otherwise quoted.
func scalar(s string) string {
	if plainWords(s) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return s
	}
	return value(s)
}

// plainWords reports whether a text starts with a letter and has only English letters and characters without a meaning
// in YAML, with single spaces inside.
func plainWords(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9') && !strings.ContainsRune(" _-.?!'>", r)) {
			return false
		}
	}
	return s != "" && !strings.HasSuffix(s, " ")
}

// value returns a value as JSON, which is also YAML, with escapes for control characters.
func value(v any) string {
	var raw json.RawMessage = event.EncodeJSON(v)
	return string(visible.JSON(raw))
}
