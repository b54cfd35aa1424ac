package runner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// overHTTP serves the models of a script, and returns those of a client.
func overHTTP(t *testing.T, script *scripted.Script, names ...string) []llm.Model {
	s := must.Get(endpoint.Start(script.Models()))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var models []llm.Model
	for _, name := range names {
		m := must.Get(openai.New(name, openai.WithBaseURL(s.URL())))
		models = append(models, m)
	}
	return models
}

// told returns what a turn of one agent has stored about its answers.
func told(t *testing.T, m llm.Model, opts ...runner.Option) (lines []string, failed error) {
	a := must.Get(llmagent.New("solo", "You answer.", m))
	r, err := runner.New(a, sessiontest.Memory(t), opts...)
	if err != nil {
		return nil, err
	}
	for e, err := range sessiontest.Turn(t, r.Run(t.Context(), session.ID("s"), llm.UserText("Hello"))) {
		if err != nil {
			failed = err
			break
		}
		switch d := e.Data.(type) {
		case *event.Notice:
			lines = append(lines, "notice "+d.Code)
		case *event.Text:
			if !e.Partial {
				lines = append(lines, d.Content)
			}
		case *event.Discard:
			line := fmt.Sprintf("discard %s %d", d.Code, len(d.IDs))
			if u := d.Usage; u != nil {
				line += fmt.Sprintf(" %s %d/%d", u.Model, u.InputTokens, u.OutputTokens)
			}
			lines = append(lines, line)
		case *event.Usage:
			lines = append(lines, fmt.Sprintf("usage %s %d/%d", d.Model, d.InputTokens, d.OutputTokens))
		}
	}
	return lines, failed
}

// TestFallbackInATurn: what a chain tries is in the log, each attempt as a call, and the
// answer has the name of the model that gave it.
func TestFallbackInATurn(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprint("streaming ", streaming), func(t *testing.T) {
			chain := func() llm.Model {
				script := scripted.New().Add("a", scripted.Reply(scripted.Status(429, time.Minute))).
					Add("b", scripted.Reply(scripted.Text("half"), scripted.Cut())).
					Add("c", scripted.Reply(scripted.Text("whole"), scripted.Usage(11, 5, 0)))
				return must.Get(policy.NewFallback(overHTTP(t, script, "a", "b", "c")))
			}
			opts := []runner.Option{}
			cut := []string{"discard truncated 0", "usage c 11/5"}
			if streaming {
				opts, cut[0] = append(opts, runner.WithStreaming()), "discard truncated 1"
			}
			lines := must.Get(told(t, chain(), opts...))
			require.Equal(t, []string{"notice fallback", "discard rate_limited 0", "notice fallback", cut[0], "whole", "usage c 11/5"}, reorder(lines, streaming))

			lines, err := told(t, chain(), append(opts, runner.WithLimits(runner.Limits{ModelCalls: 2}))...)
			require.ErrorIs(t, err, agent.ErrLimit)
			require.NotContains(t, lines, "whole")
			must.Get(told(t, chain(), append(opts, runner.WithLimits(runner.Limits{ModelCalls: 3}))...))

			prices := llm.Prices{"a": {Input: 1}, "c": {Input: 1}}
			_, err = told(t, chain(), append(opts, runner.WithPrices(prices), runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Cost: 100}}))...)
			require.ErrorIs(t, err, agent.ErrUnknownPrice, "b has none, so it is not asked")
		})
	}
}

// reorder puts the notice of a chain that continues within a streamed turn where it is
// without streaming: there the answer of b is not begun when it breaks.
func reorder(lines []string, streaming bool) []string {
	if streaming {
		lines[2], lines[3] = lines[3], lines[2]
	}
	return lines
}

// TestHedgeInATurn: the one that lost is charged to the budget, by an estimate, and a
// limit of calls that leaves none keeps the second from being asked.
func TestHedgeInATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hedge := func() llm.Model {
			slow := scripted.Reply(scripted.Wait(func(ctx context.Context) error {
				select {
				case <-time.After(5 * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}), scripted.Text("slow"), scripted.Usage(20, 4, 0))
			script := scripted.New().Always("a", slow).Always("b", scripted.Reply(scripted.Text("quick"), scripted.Usage(30, 6, 0)))
			return must.Get(policy.NewHedge(time.Second, script.Model("a"), script.Model("b")))
		}
		lines := must.Get(told(t, hedge(), runner.WithTokenCounter(letters), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1000}})))
		n := llm.CountRequest(&llm.Request{System: "You answer.", Messages: []llm.Message{llm.UserText("Hello")}}, letters)
		require.Equal(t, []string{"notice hedged", fmt.Sprintf("discard hedged 0 a %d/0", n), "notice usage_estimated", "quick", "usage b 30/6"}, lines)

		lines = must.Get(told(t, hedge(), runner.WithLimits(runner.Limits{ModelCalls: 1})))
		require.Equal(t, []string{"slow", "usage a 20/4"}, lines)

		// Room for one request, and not for two at once.
		lines = must.Get(told(t, hedge(), runner.WithTokenCounter(letters), runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: int64(2*n - 1)}})))
		require.Equal(t, "slow", lines[0])
		lines = must.Get(told(t, hedge(), runner.WithTokenCounter(letters), runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: int64(2 * n)}})))
		require.Contains(t, lines, "quick")
	})
}

// TestCacheInTurns: an answer from the cache costs nothing, and a budget of tokens can be
// kept with it. A session never gets what was answered for another's secret.
func TestCacheInTurns(t *testing.T) {
	c := must.Get(policy.NewCache(10, time.Hour))
	m := c.Wrap(scripted.Func("m", func(req *llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("You said: "+req.System), scripted.Usage(40, 10, 0))
	}))
	a := must.Get(llmagent.New("solo", "", m, llmagent.WithInstructionFunc(func(_ context.Context, inv *agent.Invocation) (string, error) {
		_, secret, _ := strings.Cut(string(inv.Session().Key().ID), "-")
		return "The PIN is " + secret + ".", nil
	})))
	r := newRun(t, a, runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 200}}))
	answer := func(id string) *runner.Result {
		return must.Get(runner.Collect(r.Run(t.Context(), session.ID(id), llm.UserText("Which?"))))
	}
	require.Equal(t, "You said: The PIN is 1111.", answer("a-1111").Text)
	require.Equal(t, "You said: The PIN is 2222.", answer("b-2222").Text)
	again := answer("c-1111")
	require.Equal(t, "You said: The PIN is 1111.", again.Text)
	require.Equal(t, llm.Usage{CachedTokens: 40}, again.Usage)
	require.NotEmpty(t, answer("c-1111").Text, "a second turn within the budget")
}
