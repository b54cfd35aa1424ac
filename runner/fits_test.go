package runner_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestUsageThatCannotBeTrue: what an endpoint says it has used lifts no budget. It is
// unknown if it cannot be true, and then a budget cannot be kept, as if the endpoint
// had said nothing.
func TestUsageThatCannotBeTrue(t *testing.T) {
	budgets := runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1000}})
	for _, n := range [][3]int{{-100_000, 5, 0}, {5, -100_000, 0}, {math.MinInt, math.MinInt, 0}, {math.MaxInt, math.MaxInt, 0}, {math.MaxInt, 1, 0}, {1 << 40, 0, 0}} {
		store := sessiontest.Memory(t)
		r := newRunner(t, spender(t, "root", n[0], n[1]), store, budgets)
		run(t, r, s1, "Hello")
		for _, u := range find[*event.Usage](load(t, r, s1)) {
			require.Equal(t, &event.Usage{Model: "root-model"}, u)
		}
		_, err := collect(r.Run(t.Context(), s1, llm.UserText("Hello")))
		require.ErrorIs(t, err, agent.ErrUnknownUsage, "%d", n)
	}

	// In a log of a version that believed it.
	for _, u := range []event.Usage{{InputTokens: -100_000}, {InputTokens: math.MaxInt, OutputTokens: math.MaxInt}} {
		store := sessiontest.Memory(t)
		lease := must.Get(sessiontest.Acquire(t.Context(), store, s1, session.Self()))
		spent := u
		require.NoError(t, sessiontest.Append(t.Context(), store, s1, 0, lease,
			&event.Event{Seq: 1, ID: "u", TurnID: "t", RunID: "ru", Data: &event.User{Content: llm.Content{Text: "Hello"}}},
			&event.Event{Seq: 2, ID: "a", TurnID: "t", RunID: "r", ParentID: "ru:user", Agent: "root", Path: "root", Data: &event.HarnessStart{AgentID: "root"}},
			&event.Event{Seq: 3, ID: "b", TurnID: "t", RunID: "r", Agent: "root", Path: "root", Data: &spent},
			&event.Event{Seq: 4, ID: "c", TurnID: "t", RunID: "r", Agent: "root", Path: "root", Data: &event.Usage{InputTokens: 600, OutputTokens: 300}},
			&event.Event{Seq: 5, ID: "d", TurnID: "t", RunID: "r", Agent: "root", Path: "root", Data: &event.HarnessEnd{AgentID: "root", FinishReason: event.FinishReasonStop}}))
		require.NoError(t, sessiontest.Release(t.Context(), store, s1, lease))
		r := newRunner(t, spender(t, "root", 200, 0), store, budgets)
		must.Get(collect(r.Run(t.Context(), s1, llm.UserText("Hello")))) // 900 of 1000 are spent
		_, err := collect(r.Run(t.Context(), s1, llm.UserText("Hello")))
		require.Equal(t, 1100.0, must.As[*agent.BudgetError](err).Used)
	}
}

// TestAbsurdReservation: what settings allow for an answer may be any number.
func TestAbsurdReservation(t *testing.T) {
	for _, most := range []int{math.MaxInt, math.MaxInt - 1} {
		a := must.Get(llmagent.New("root", "", scripted.Always("m", scripted.Reply(scripted.Text("Hello."))), llmagent.WithSettings(llm.Settings{MaxTokens: most})))
		r := newRun(t, a, runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 1000}}))
		_, err := collect(r.Run(t.Context(), s1, llm.UserText("Hello")))
		var over *agent.BudgetError
		require.ErrorAs(t, err, &over)
	}
}

// A message that is too large for a budget or for the window is refused before it is stored, in a new session and later,
// and the session answers the next one.
func TestMessagesThatAreTooLarge(t *testing.T) {
	window := llmagent.WithCompaction(llmagent.Compaction{Window: 2000})
	for name, c := range map[string]struct {
		budgets runner.Budgets
		opts    []llmagent.Option
		routed  bool
		of      string
	}{
		"turn":            {runner.Budgets{Turn: runner.Budget{Tokens: 2000}}, nil, false, "the budget of the turn"},
		"session":         {runner.Budgets{Session: runner.Budget{Tokens: 2000}}, nil, false, "the budget of the session"},
		"agent":           {runner.Budgets{Agents: map[string]runner.Budget{"talker": {Tokens: 2000}}}, nil, false, "the budget of the agent talker"},
		"cost":            {runner.Budgets{Turn: runner.Budget{Cost: 0.002}}, nil, false, "the budget of the turn"},
		"window":          {runner.Budgets{}, []llmagent.Option{window}, false, "the window of the model of talker"},
		"window, answers": {runner.Budgets{}, []llmagent.Option{window, llmagent.WithSettings(llm.Settings{MaxTokens: 1500})}, false, "the window of the model of talker"},
		"a router":        {runner.Budgets{Turn: runner.Budget{Tokens: 2000}}, nil, true, "the budget of the turn"},
	} {
		t.Run(name, func(t *testing.T) {
			a := talker(t, scripted.Always("m", scripted.Reply(scripted.Text("Yes."), scripted.Usage(100, 5, 0))), c.opts...)
			if c.routed {
				a = must.Get(router.New("front", router.Wrap(a)))
			}
			r := newRun(t, a, runner.WithBudgets(c.budgets), runner.WithPrices(llm.Prices{"m": {Input: 1, Output: 1}}))
			large := strings.Repeat("many words ", 1000)
			for range 3 {
				before := len(load(t, r, s1))
				_, err := say(r, s1, large)
				refused := must.As[*agent.MessageSizeError](err)
				require.ErrorIs(t, err, agent.ErrBadInput)
				require.Equal(t, c.of, refused.Of)
				require.Greater(t, refused.Needs, refused.Left)
				require.Contains(t, err.Error(), "shorten the message")
				require.Len(t, load(t, r, s1), before, "nothing is stored")
				_, err = say(r, s1, "Hi")
				require.NoError(t, err, "the session goes on")
			}
		})
	}
	// Where nothing would fit any more, that is what the turn ends with.
	r := newRun(t, says(t, "solo", "Yes."), runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 2}}))
	_, err := say(r, s1, strings.Repeat("many words ", 1000))
	require.ErrorAs(t, err, new(*agent.BudgetError))
	// What a window has to hold besides can be left out.
	r = newRun(t, talker(t, scripted.Always("m", scripted.Reply(scripted.Text(strings.Repeat("words ", 700)))), window))
	for range 4 {
		run(t, r, s1, strings.Repeat("many words ", 500))
	}
}
