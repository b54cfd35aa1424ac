package routing

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/asked"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

var key = session.ID("s1")

// played is a session of a tree whose requests are kept.
type played struct {
	*runner.Runner
	store    session.Store
	requests *asked.Requests
}

func tell(t testing.TB, root agent.Agent, messages ...string) played {
	s := played{store: sessiontest.Memory(t)}
	var err error
	s.requests, err = asked.Keep(64 << 20)
	require.NoError(t, err)
	s.Runner, err = runner.New(root, s.store, runner.WithInterceptors(s.requests))
	require.NoError(t, err)
	for _, m := range messages {
		for range sessiontest.Turn(t, s.Run(t.Context(), key, llm.UserText(m))) {
			continue
		}
	}
	return s
}

func (s played) find(t testing.TB, seq int64) *Decision {
	d, err := Find(s.store.Load(t.Context(), key, 0), seq)
	require.NoError(t, err)
	return d
}

func (s played) why(t testing.TB, seq int64) *Why {
	w, err := Explain(t.Context(), s.Runner, key, s.find(t, seq))
	require.NoError(t, err)
	return w
}

// line tells a decision in short.
func (d *Decision) line() string {
	return fmt.Sprintf("%s %s → %s %s (%s) %d %d-%d", d.Kind, d.Agent, d.Chosen, d.Outcome, d.Reason, d.At, d.Seq, d.Until)
}

func llmAgent(t testing.TB, m llm.Model, name, description string, opts ...llmagent.Option) agent.Agent {
	a, err := llmagent.New(name, "You are "+name+".", m, append(opts, llmagent.WithDescription(description))...)
	require.NoError(t, err)
	return a
}

// scriptedDesk is support with billing and tech, who answer by a script.
func scriptedDesk(t testing.TB, text string, opts ...llmagent.Option) agent.Agent {
	s, err := scripted.Parse([]byte(text))
	require.NoError(t, err)
	if strings.Contains(text, "small:") {
		opts = append(opts, llmagent.WithDecision(s.Model("small")))
	}
	parent := llmagent.WithTransferPolicy(toParent)
	return llmAgent(t, s.Model("support"), "support", "Finds the right specialist", append(opts, llmagent.WithSubAgents(
		llmAgent(t, s.Model("billing"), "billing", "Refunds, invoices, being charged twice", parent),
		llmAgent(t, s.Model("tech"), "tech", "Networks, routers", parent)))...)
}

func TestFind(t *testing.T) {
	s := tell(t, scriptedDesk(t, `
support: call transfer_to_nobody {}
support: "One moment." call transfer_to_billing {"reason": "money"}
billing: "Two charges."
billing: "Refunded."
`), "I was charged twice", "And now?")
	for seq, want := range map[int64]string{
		0:  "answer billing → billing  () 18 21-21", // the last turn had no other
		1:  "transfer support → nobody rejected () 2 6-6",
		7:  "transfer support → billing committed (money) 6 11-12",
		12: "transfer support → billing committed (money) 6 11-12",
		13: "answer billing → billing  () 13 16-16",
		17: "answer billing → billing  () 18 21-21",
	} {
		require.Equal(t, want, s.find(t, seq).line(), seq)
	}
	s = tell(t, scriptedDesk(t, "support: call transfer_to_billing {}\nbilling: \"Two charges.\""), "I was charged twice")
	require.Equal(t, "transfer support → billing committed () 2 6-7", s.find(t, 0).line(), "the last that moved the conversation")

	m, err := scripted.Parse([]byte("a: call transfer_to_b {}\nb: call transfer_to_c {}\nc: \"ok\""))
	require.NoError(t, err)
	c := llmAgent(t, m.Model("c"), "c", "")
	s = tell(t, llmAgent(t, m.Model("a"), "a", "", llmagent.WithSubAgents(llmAgent(t, m.Model("b"), "b", "", llmagent.WithSubAgents(c)))), "hello")
	require.Equal(t, "transfer b → c committed () 8 12-13", s.find(t, 0).line(), "the last of several")

	// The transfer waits for an approval, and is made in another run of the runner.
	s = tell(t, scriptedDesk(t, "support: call transfer_to_billing#c1 {}\nbilling: \"Two charges.\"", llmagent.WithTransferApproval(tools.ByUser())), "I was charged twice")
	asked, err := s.Pending(t.Context(), key)
	require.NoError(t, err)
	for range sessiontest.Turn(t, s.Resume(t.Context(), key, runner.Decision{CallID: asked[0].ToolCallID, Approved: true})) {
		continue
	}
	require.Equal(t, int64(2), s.find(t, 0).At)
	require.Equal(t, "billing", s.find(t, 0).Chosen)
}

// TestRequests: each decision that a model made is explained with the very request that was sent for it,
// whatever the models did.
func TestRequests(t *testing.T) {
	type call struct{}
	questions, requests := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		lookup, err := tools.Func("lookup", "Looks something up.", func(tools.Context, call) (string, error) { return "found", nil })
		require.NoError(rt, err)
		model := scripted.Func("m", func(req *llm.Request) scripted.Answer {
			if req.TopLogProbs > 0 { // the question who answers
				return scripted.Reply(scripted.Text(rapid.SampledFrom([]string{"root", "a", "b", "c", "nobody", ""}).Draw(rt, "who")))
			}
			if rapid.IntRange(0, 9).Draw(rt, "fails") == 0 {
				return scripted.Reply(scripted.Status(400, 0))
			}
			var items []scripted.Item
			if rapid.Bool().Draw(rt, "words") {
				items = append(items, scripted.Text("hm"))
			}
			for range rapid.IntRange(0, 2).Draw(rt, "calls") {
				items = append(items, scripted.Call(rapid.SampledFrom([]string{"transfer_to_a", "transfer_to_b", "transfer_to_c", "transfer_to_root", "transfer_to_x", "lookup"}).Draw(rt, "call"), "{}"))
			}
			return scripted.Reply(items...)
		})
		maybe := func(opts ...llmagent.Option) []llmagent.Option {
			opts = append(opts, llmagent.WithTools(lookup), llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: rapid.Bool().Draw(rt, "parent"), AllowTransferToPeers: rapid.Bool().Draw(rt, "peers")}))
			if rapid.Bool().Draw(rt, "decides") {
				opts = append(opts, llmagent.WithDecision(nil))
			}
			if rapid.Bool().Draw(rt, "one tool") {
				opts = append(opts, llmagent.WithTransferTools(1))
			}
			return opts
		}
		root := llmAgent(t, model, "root", "Finds who answers", maybe(llmagent.WithSubAgents(
			llmAgent(t, model, "a", "Invoices", maybe()...), llmAgent(t, model, "b", "Networks", maybe(llmagent.WithSubAgents(llmAgent(t, model, "c", "Wifi", maybe()...)))...)))...)
		s := tell(t, root, "first", "second", "third")
		end := int64(0)
		for e, err := range s.store.Load(t.Context(), key, 0) {
			require.NoError(rt, err)
			end = e.Seq
		}
		for seq := int64(1); seq <= end; seq++ {
			d, err := Find(s.store.Load(t.Context(), key, 0), seq)
			if err != nil {
				require.ErrorIs(rt, err, agent.ErrBadInput)
				continue
			}
			require.GreaterOrEqual(rt, d.Until, seq)
			require.Less(rt, d.At, d.Seq)
			require.Contains(rt, []string{"first", "second", "third"}, d.Said)
			w, err := Explain(t.Context(), s.Runner, key, d)
			require.NoError(rt, err)
			require.NotNil(rt, w.Request, "%+v", d)
			sent := s.requests.Find(key, d.Agent, d.At)
			if sent == nil {
				require.Equal(rt, Fails, d.Kind, "nothing was sent for %s", d.line())
				continue
			}
			requests++
			want, err := json.Marshal(w.Request)
			require.NoError(rt, err)
			require.JSONEq(rt, string(sent.Request), string(want), d.line())
			var offered []string
			for _, target := range w.Targets {
				offered = append(offered, target.Name)
			}
			if w.Question {
				questions++
				require.Contains(rt, offered, d.Agent)
			}
			if d.Outcome == event.TransferCommitted {
				require.Contains(rt, offered, d.Chosen, d.line())
			}
		}
	})
	require.Greater(t, requests, questions)
	require.Positive(t, questions)
}

func TestExplain(t *testing.T) {
	s := tell(t, scriptedDesk(t, `
support: call transfer_to_billing {"reason": "money"}
billing: "Two charges."
`), "I was charged twice for one invoice")
	w := s.why(t, 0)
	require.Equal(t, ByTransfer, w.Kind)
	require.Equal(t, []Target{{"billing", "Refunds, invoices, being charged twice", []string{"charged", "twice", "invoice"}, w.Targets[0].Score}, {"tech", "Networks, routers", []string{}, 0}}, w.Targets)
	require.Greater(t, w.Targets[0].Score, 1.0)
	require.False(t, w.Question)
	w = s.why(t, 9)
	require.Equal(t, Answers, w.Kind)
	require.Len(t, w.Targets, 1, "support, which its policy allows")
	require.False(t, w.Question)
	w = tell(t, scriptedDesk(t, "support: \"Hm.\"", llmagent.WithTransferInstruction("- support: Finds the right specialist\n{targets}")), "hello").why(t, 0)
	require.False(t, w.Question, "its own line is in the instructions only")
	require.Len(t, w.Targets, 2)

	w = tell(t, scriptedDesk(t, "small: \"support\"\nsupport: \"I can help.\""), "hello").why(t, 0)
	require.Equal(t, "support answers, decided", w.Reason)
	require.True(t, w.Question)
	require.Equal(t, int64(2), w.At)
	require.Len(t, w.Targets, 3)
	w = tell(t, scriptedDesk(t, "small: \"billing\"\nbilling: \"ok\""), "hello").why(t, 0)
	require.Equal(t, "decided", w.Reason)
	require.True(t, w.Question)

	s = tell(t, scriptedDesk(t, `
small: "nobody"
support: "I can help."
`), "hello")
	w = s.why(t, 0)
	require.Equal(t, Answers, w.Kind)
	require.Len(t, w.Notes, 1)
	require.Contains(t, w.Notes[0], "who answers is not decided")
	require.Len(t, w.Targets, 2)

	s = tell(t, scriptedDesk(t, "support: fault=bad_request"), "hello")
	w = s.why(t, 0)
	require.Equal(t, "failed support →   () 2 4-4", w.line())
	require.Contains(t, w.Notes[0], "the run ended with error")
	require.NotNil(t, s.requests.Find(key, "support", w.At))

	small := llmAgent(t, scripted.Always("billing", scripted.Reply(scripted.Text("ok"))), "billing", "Money")
	other := llmAgent(t, scripted.Always("shop", scripted.Reply(scripted.Text("ok"))), "shop", "Goods")
	handle := router.Specialist(small)
	front, err := router.New("front", router.Rules(router.When(router.Keyword("refund")).To(handle)), router.Default(router.Specialist(other)))
	require.NoError(t, err)
	s = tell(t, front, "a refund", "hello")
	w = s.why(t, 1)
	require.Equal(t, ByRule, w.Kind)
	require.Equal(t, `keyword("refund")`, w.When)
	require.Equal(t, event.TransferCommitted, w.Outcome)
	require.Nil(t, w.Request)
	require.Contains(t, w.Missing, "a router asks no model")
	w = s.why(t, 0)
	require.Equal(t, "shop", w.Chosen)
	require.Nil(t, w.Rule)

	// A tree in which the agent is no more.
	gone, err := runner.New(other, s.store)
	require.NoError(t, err)
	missing, err := Explain(t.Context(), gone, key, s.find(t, 1))
	require.NoError(t, err)
	require.Equal(t, "the tree has no agent front any more", missing.Missing)
	_, err = Find(s.store.Load(t.Context(), key, 0), 999)
	require.ErrorIs(t, err, agent.ErrBadInput)
	_, err = Find(s.store.Load(t.Context(), session.ID("none"), 0), 0)
	require.ErrorContains(t, err, "nothing was decided in this session yet")
}

// TestTally counts samples of both forms.
func TestTally(t *testing.T) {
	words := func(text string, probs ...llm.LogProb) asked.Sample {
		return asked.Sample{Message: &chatform.Message{Role: "assistant", Content: text}, LogProbs: probs}
	}
	w := &Why{Decision: Decision{Agent: "support"}, Targets: []Target{{Name: "billing"}, {Name: "tech"}}}
	got := w.Tally(&asked.Samples{Samples: []asked.Sample{{Transfer: &asked.Transfer{To: "tech"}}, {Transfer: &asked.Transfer{To: "tech"}}, words("Hello"),
		{Error: &event.Failure{Code: "timeout"}}, {Transfer: &asked.Transfer{To: "left"}}}})
	require.Equal(t, []string{"tech", "support", "left"}, namesOfChoices(got))
	require.Equal(t, 2, got[0].Times)
	require.InDelta(t, 0.150, got[0].Low, 0.001) // 2 of 4, after Wilson
	require.InDelta(t, 0.850, got[0].High, 0.001)

	w = &Why{Question: true, Decision: Decision{Agent: "support"}, Targets: []Target{{Name: "billing"}, {Name: "tech"}, {Name: "support"}}}
	sure := llm.LogProb{Token: "tech", LogProb: math.Log(0.6), Top: []llm.LogProb{{Token: "tech", LogProb: math.Log(0.6)}, {Token: "billing", LogProb: math.Log(0.2)}}}
	got = w.Tally(&asked.Samples{Samples: []asked.Sample{words("tech", sure), words("Support"), words("what?"), words("tech", sure)}})
	require.Equal(t, []string{"tech", "support", ""}, namesOfChoices(got))
	require.InDelta(t, 0.75, *got[0].Confidence, 1e-9)
	require.Nil(t, got[1].Confidence)
	require.Empty(t, w.Tally(&asked.Samples{}))
}

func namesOfChoices(choices []Choice) (names []string) {
	for _, c := range choices {
		names = append(names, c.Name)
	}
	return slices.Clip(names)
}
