package runner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
)

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
				var refused *agent.MessageSizeError
				require.ErrorAs(t, err, &refused)
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
