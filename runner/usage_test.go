package runner_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
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
		for _, e := range load(t, r, s1) {
			if u, ok := e.Data.(*event.Usage); ok {
				require.Equal(t, &event.Usage{Model: "root-model"}, u)
			}
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
		_, err := collect(r.Run(t.Context(), s1, llm.UserText("Hello"))) // 900 of 1000 are spent
		require.NoError(t, err)
		_, err = collect(r.Run(t.Context(), s1, llm.UserText("Hello")))
		var over *agent.BudgetError
		require.ErrorAs(t, err, &over)
		require.Equal(t, 1100.0, over.Used)
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
