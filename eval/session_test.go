package eval_test

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

func TestWriteSession(t *testing.T) {
	refund, err := tools.Func("refund_charge", "Refund a charge.", func(tools.Context, struct {
		Charge string `json:"charge" jsonschema:"enum=march"`
	}) (string, error) {
		return "Refunded.", nil
	}, tools.NeedsApproval(tools.ByUser()))
	require.NoError(t, err)
	model := offline.New()
	billing, err := llmagent.New("billing", "You handle refunds.", model, llmagent.WithDescription("Refunds, invoices, being charged twice"),
		llmagent.WithTools(refund), llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}))
	require.NoError(t, err)
	root, err := llmagent.New("support", "You route.", model, llmagent.WithSubAgents(billing))
	require.NoError(t, err)
	store := sessiontest.Memory(t)
	r, err := runner.New(root, store)
	require.NoError(t, err)
	key := session.ID("a: session # \"of\" mine")
	turn := func(events iter.Seq2[*event.Event, error]) *runner.Result {
		t.Helper()
		res, err := runner.Collect(sessiontest.Turn(t, events))
		require.NoError(t, err)
		return res
	}
	turn(r.Run(t.Context(), key, llm.UserText("I was charged twice:\n- 19 EUR # in March\n\"twice\""), runner.WithState(map[string]any{"plan": "gold", "n": 2.5})))
	res := turn(r.Run(t.Context(), key, llm.UserText("Please refund the march charge"), runner.WithMetadata(map[string]any{"page": "/bills"})))
	require.Len(t, res.Pending, 1)
	turn(r.Resume(t.Context(), key, runner.Approve(res.Pending[0].ToolCallID)))

	write := func() string {
		var out strings.Builder
		require.NoError(t, eval.WriteSession(&out, key.ID, store.Load(t.Context(), key, 0)))
		return out.String()
	}
	text := write()
	require.Contains(t, text, "path: support > billing\n")
	require.Contains(t, text, "        tools: [refund_charge]\n        asks: [refund_charge]\n        approve: [refund_charge]\n")
	require.Contains(t, text, "        # billing said: ")
	cases, err := eval.Load([]byte(text), "s.yaml")
	require.NoError(t, err, text)
	require.Len(t, cases, 1)
	require.Equal(t, key.ID, cases[0].Name)
	require.Equal(t, map[string]any{"plan": "gold", "n": 2.5}, cases[0].State)
	require.Equal(t, map[string]any{"page": "/bills"}, cases[0].Turns[1].Metadata)
	require.Equal(t, "I was charged twice:\n- 19 EUR # in March\n\"twice\"", cases[0].Turns[0].User)
	require.NoError(t, eval.Check(cases, root))
	report, err := eval.Run(t.Context(), cases, []eval.Subject{{Name: "again", Root: root}})
	require.NoError(t, err)
	require.True(t, report.Subjects[0].Outcomes[0].OK(), "%+v", report.Subjects[0].Outcomes[0])

	// A turn that still waits is expected to ask.
	key = session.ID("waits")
	turn(r.Run(t.Context(), key, llm.UserText("I was charged twice")))
	require.Len(t, turn(r.Run(t.Context(), key, llm.UserText("Please refund the march charge"))).Pending, 1)
	cases, err = eval.Load([]byte(write()), "s.yaml")
	require.NoError(t, err)
	require.Equal(t, []string{"refund_charge"}, cases[0].Turns[1].Expect.Asks)
	require.Empty(t, cases[0].Turns[1].Approve)
	report, err = eval.Run(t.Context(), cases, []eval.Subject{{Name: "again", Root: root}})
	require.NoError(t, err)
	require.True(t, report.Subjects[0].Outcomes[0].OK(), "%+v", report.Subjects[0].Outcomes[0])

	// Another tree does not pass.
	alone, err := llmagent.New("support", "You route.", model)
	require.NoError(t, err)
	report, err = eval.Run(t.Context(), cases, []eval.Subject{{Name: "alone", Root: alone}})
	require.NoError(t, err)
	require.False(t, report.Subjects[0].Outcomes[0].OK())
}

// logOf makes a log of a turn for each text.
func logOf(texts ...string) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for _, text := range texts {
			for _, e := range []*event.Event{
				{RunID: "u", Data: &event.User{Content: llm.Content{Text: text}}},
				{RunID: "r", Agent: "support", Data: &event.HarnessStart{AgentID: "support"}},
				{RunID: "r", Agent: "support", Data: &event.ToolCall{Name: text}},
				{RunID: "r", Agent: "support", Data: &event.Text{Content: text}},
			} {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func TestWriteSessionOdd(t *testing.T) {
	var out strings.Builder
	require.NoError(t, eval.WriteSession(&out, "empty\nname", logOf()))
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "# No user has said anything")

	out.Reset()
	require.NoError(t, eval.WriteSession(&out, "media", func(yield func(*event.Event, error) bool) {
		for e := range logOf(" ", "look") {
			if u, ok := e.Data.(*event.User); ok {
				u.Content = llm.Content{Parts: []llm.Part{llm.TextPart{Text: u.Content.Text}, llm.Media{Kind: llm.MediaImage, URL: "https://example.com/a.png"}}}
			}
			if !yield(e, nil) {
				return
			}
		}
	}))
	require.Contains(t, out.String(), "# Turn 1 is left out")
	require.Contains(t, out.String(), "- say: look\n        path: support\n        tools: [look]\n        # the user's message has more than text; the rest is left out\n        # support said: look\n")

	broken := errors.New("broken")
	require.ErrorIs(t, eval.WriteSession(&out, "s", func(yield func(*event.Event, error) bool) { yield(nil, broken) }), broken)
}

// FuzzWriteSession holds that whatever was said comes back word for word, and that no word of it
// becomes a key.
func FuzzWriteSession(f *testing.F) {
	for _, text := range []string{"hello", "a: b", "- a", "# a", "true", "No", "", "\x00\x1b[2J", "a\nb\n\n", "\"'\\ \u2028\u0085\ufeff", "\U000e0041\u202e", "{a: [b]}", "---\n", "0x10", "~", "é\xff", " > | *a &b !c %d @e `", "\t"} {
		f.Add(text, "name "+text)
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		text = event.ValidText(text) // as logs hold it
		var out strings.Builder
		require.NoError(t, eval.WriteSession(&out, name, logOf(text, text)))
		require.NotContains(t, out.String(), "\x1b")
		require.True(t, utf8.ValidString(out.String()))
		cases, err := eval.Load([]byte(out.String()), "s.yaml")
		if strings.TrimSpace(text) == "" {
			return
		}
		require.NoError(t, err, out.String())
		require.Len(t, cases, 1)
		require.Len(t, cases[0].Turns, 2)
		want := text
		for _, turn := range cases[0].Turns {
			require.Equal(t, strings.TrimSuffix(want, "\n"), turn.User, out.String())
			require.Equal(t, []string{want}, turn.Expect.Tools)
			require.Equal(t, "support", turn.Expect.Path.String())
		}
	})
}

// TestArrivals counts what the first answer behind a transfer had to compute, and nothing else.
func TestArrivals(t *testing.T) {
	script, err := scripted.Parse([]byte(`
support: call transfer_to_agent {"agent_name": "billing"} usage=100/2/40
billing: "Two charges." usage=50/3/20
billing: "Yes." usage=80/1/75
`))
	require.NoError(t, err)
	billing, err := llmagent.New("billing", "", script.Model("billing"))
	require.NoError(t, err)
	root, err := llmagent.New("support", "", script.Model("support"), llmagent.WithSubAgents(billing))
	require.NoError(t, err)
	cases, err := eval.Load([]byte("turns:\n- {say: Twice, path: support > billing}\n- {say: Really, path: billing}\n"), "c.yaml")
	require.NoError(t, err)
	report, err := eval.Run(t.Context(), cases, []eval.Subject{{Root: root}})
	require.NoError(t, err)
	turns := report.Subjects[0].Outcomes[0].Turns
	require.Equal(t, []int{30}, turns[0].Arrivals)
	require.Empty(t, turns[1].Arrivals)
	require.Positive(t, turns[0].FirstWord)
	summary := report.Subjects[0].Summary()
	require.Equal(t, []int{1, 1}, []int{summary.Straight.Turns, summary.Moved.Turns})
	require.Equal(t, turns[0].FirstWord, summary.Moved.P95)
	var out strings.Builder
	require.NoError(t, report.Markdown(&out))
	require.Contains(t, out.String(), "| … first answer after a transfer | 30 |")
	require.Contains(t, out.String(), "| … to the first text with a transfer | 0.")
	require.Contains(t, out.String(), "| tokens computed anew, a turn | 48 |") // 60 + 30 + 5 in two turns
}
