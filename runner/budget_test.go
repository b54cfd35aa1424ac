package runner_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/workflowagent"
)

// spender answers with so many tokens each time; the first answer hands over if
// there is a target.
func spender(t testing.TB, name string, in, out int, opts ...llmagent.Option) *llmagent.Agent {
	items := []scripted.Item{scripted.Text("done"), scripted.Usage(in, out, 0)}
	return must.Get(llmagent.New(name, "", scripted.Always(name+"-model", scripted.Reply(items...)), opts...))
}

func paidDesk(t testing.TB) agent.Agent {
	billing := spender(t, "billing", 300, 100)
	return must.Get(llmagent.New("support", "", scripted.Always("support-model", scripted.Reply(
		scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`), scripted.Usage(100, 50, 0))), llmagent.WithSubAgents(billing)))
}

func TestTokenBudgets(t *testing.T) {
	// A turn uses 150 tokens of support, in the first turn only, and 400 of billing.
	for name, c := range map[string]struct {
		budgets runner.Budgets
		of      string
		turns   int // that are answered before one ends at the budget
	}{
		"none":            {runner.Budgets{}, "", 5},
		"session":         {runner.Budgets{Session: runner.Budget{Tokens: 1030}}, "the session", 3},
		"turn, too small": {runner.Budgets{Turn: runner.Budget{Tokens: 150}}, "the turn", 0},
		"turn, enough":    {runner.Budgets{Turn: runner.Budget{Tokens: 1000}}, "", 5},
		"agent":           {runner.Budgets{Agents: map[string]runner.Budget{"billing": {Tokens: 900}, "support": {Tokens: 400}}}, "the agent billing", 3},
		"reserved first":  {runner.Budgets{Session: runner.Budget{Tokens: 1}}, "the session", 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := sessiontest.Memory(t)
			r := newRunner(t, paidDesk(t), store, runner.WithBudgets(c.budgets))
			for range c.turns {
				run(t, r, s1, "Hello")
				r = newRunner(t, paidDesk(t), store, runner.WithBudgets(c.budgets)) // what is spent is in the log
			}
			events, err := collect(r.Run(context.Background(), s1, llm.UserText("Hello")))
			if c.of == "" {
				require.NoError(t, err)
				return
			}
			budget := must.As[*agent.BudgetError](err)
			require.ErrorIs(t, err, agent.ErrLimit)
			require.Equal(t, c.of, budget.Of)
			require.Equal(t, "tokens", budget.Unit)
			require.Greater(t, budget.Used+budget.Needs, budget.Budget)
			require.Equal(t, "budget", events[len(events)-2].Data.(*event.Failure).Code)
			require.Equal(t, event.FinishReasonLimit, events[len(events)-1].Data.(*event.HarnessEnd).FinishReason)
		})
	}
}

// TestBudgetReservesTheAnswer: what the settings allow for an answer must fit,
// before the model is asked.
func TestBudgetReservesTheAnswer(t *testing.T) {
	root := spender(t, "solo", 1, 1, llmagent.WithSettings(llm.Settings{MaxTokens: 500}))
	r := newRun(t, root, runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 400}}))
	_, err := collect(r.Run(context.Background(), s1, llm.UserText("Hello")))
	budget := must.As[*agent.BudgetError](err)
	require.GreaterOrEqual(t, budget.Needs, 500.0)
	require.Zero(t, budget.Used)
}

func TestCostBudget(t *testing.T) {
	budgets := runner.WithBudgets(runner.Budgets{Session: runner.Budget{Cost: 0.01}})
	prices := llm.Prices{"support-model": {Input: 10, Output: 20}, "billing-model": {Input: 10, Output: 20}}
	// support: 100×10 + 50×20 = 0.002; billing: 300×10 + 100×20 = 0.005 a turn.
	r := newRun(t, paidDesk(t), budgets, runner.WithPrices(prices))
	for range 2 {
		run(t, r, s1, "Hello")
	}
	_, err := collect(r.Run(context.Background(), s1, llm.UserText("Hello")))
	budget := must.As[*agent.BudgetError](err)
	require.Equal(t, "cost", budget.Unit)
	require.InDelta(t, 0.012, budget.Used, 1e-9)

	t.Run("unknown price", func(t *testing.T) {
		known := runner.WithPrices(llm.Prices{"support-model": {Input: 1}})
		own := func(name string) runner.Option {
			return runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{name: {Cost: 1}}})
		}
		for _, o := range []runner.Option{budgets, own("billing")} {
			_, err := runner.New(paidDesk(t), sessiontest.Memory(t), o, known)
			require.ErrorIs(t, err, agent.ErrUnknownPrice)
			require.ErrorContains(t, err, `the model "billing-model" has no price, so the budget of cost cannot be enforced; set the price with runner.WithPrices`)
		}
		newRun(t, paidDesk(t), own("support"), known)
	})
	t.Run("no usage", func(t *testing.T) {
		silent := must.Get(llmagent.New("silent", "", scripted.Always("m", scripted.Reply(scripted.Text("hm")))))
		r := newRun(t, silent, runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1e6}}))
		_, err = collect(r.Run(context.Background(), s1, llm.UserText("Hello")))
		require.NoError(t, err, "nobody knows before the first answer")
		_, err = collect(r.Run(context.Background(), s1, llm.UserText("Hello")))
		require.ErrorIs(t, err, agent.ErrUnknownUsage)
	})
}

// TestBudgetsOfParallelScopes: agents that run side by side see what the others
// have reserved.
func TestBudgetsOfParallelScopes(t *testing.T) {
	inner := spender(t, "helper", 10, 10, llmagent.WithSettings(llm.Settings{MaxTokens: 300}))
	tool := must.Get(agenttool.New(inner))
	calls := scripted.Reply(scripted.Call("helper", `{"input":"a"}`), scripted.Call("helper", `{"input":"b"}`), scripted.Usage(1, 1, 0))
	root := must.Get(llmagent.New("root", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("done"), scripted.Usage(1, 1, 0))
		}
		return calls
	}), llmagent.WithTools(tool)))
	for tokens, failed := range map[int64]int{1000: 0, 250: 2} {
		r := newRun(t, root, runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{"helper": {Tokens: tokens}}}))
		events := run(t, r, s1, "Hello")
		var got int
		for _, e := range events {
			if d, ok := e.Data.(*event.ToolResult); ok && d.IsError {
				require.Contains(t, string(d.Output), "over budget")
				got++
			}
		}
		require.Equal(t, failed, got, "%d tokens", tokens)
	}
}

func TestTimeBudget(t *testing.T) {
	slow := func(d time.Duration) tools.Tool {
		return must.Get(tools.Func("wait", "Waits.", func(c tools.Context, _ struct{}) (string, error) {
			select {
			case <-time.After(d):
			case <-c.Done():
			}
			return "waited", c.Err()
		}))
	}
	root := func(d time.Duration) agent.Agent {
		return must.Get(llmagent.New("root", "", callsThen("m", "done", scripted.Call("wait", "{}")), llmagent.WithTools(slow(d))))
	}
	for name, c := range map[string]struct {
		budgets runner.Budgets
		of      string
		turns   int
	}{
		"turn":    {runner.Budgets{Turn: runner.Budget{Time: 5 * time.Second}}, "the turn", 0},
		"session": {runner.Budgets{Session: runner.Budget{Time: 25 * time.Second}}, "the session", 2},
		"agent":   {runner.Budgets{Agents: map[string]runner.Budget{"root": {Time: 35 * time.Second}}}, "the agent root", 3},
		"enough":  {runner.Budgets{Turn: runner.Budget{Time: 15 * time.Second}}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := sessiontest.Memory(t)
				r := newRunner(t, root(10*time.Second), store, runner.WithBudgets(c.budgets))
				for range c.turns {
					run(t, r, s1, "Hello")
					time.Sleep(time.Hour) // between turns nothing runs
					r = newRunner(t, root(10*time.Second), store, runner.WithBudgets(c.budgets))
				}
				_, err := collect(r.Run(context.Background(), s1, llm.UserText("Hello")))
				if c.of == "" {
					require.NoError(t, err)
					return
				}
				budget := must.As[*agent.BudgetError](err)
				require.Equal(t, c.of, budget.Of)
				require.Equal(t, "seconds", budget.Unit)
			})
		})
	}

	t.Run("what lies between a crash and the resumption is not counted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			budgets := runner.WithBudgets(runner.Budgets{Session: runner.Budget{Time: time.Minute}})
			store := sessiontest.Memory(t)
			r := newRunner(t, root(10*time.Second), store, budgets)
			for e, err := range r.Run(context.Background(), s1, llm.UserText("Hello")) {
				require.NoError(t, err)
				if _, ok := e.Data.(*event.ToolCall); ok {
					break // as if the process died here
				}
			}
			time.Sleep(24 * time.Hour)
			r = newRunner(t, root(10*time.Second), store, budgets)
			events := finish(t, r.Resume(context.Background(), s1))
			require.Equal(t, event.NoticeResumed, events[0].Data.(*event.Notice).Code)
			run(t, r, s1, "Again")
		})
	})
}

func TestBudgetsAreChecked(t *testing.T) {
	for _, opt := range []runner.Option{
		runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: -1}}),
		runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{"a": {Cost: -1}}}),
		runner.WithPrices(llm.Prices{"m": {Input: -1}}),
	} {
		_, err := runner.New(paidDesk(t), sessiontest.Memory(t), opt)
		require.Error(t, err)
	}
}

// TestASpentTimeBudgetAsksNoModel: a budget of time that the log says is spent
// ends a turn before anything is asked, whoever spent it and when.
func TestASpentTimeBudgetAsksNoModel(t *testing.T) {
	for name, c := range map[string]struct {
		budgets runner.Budgets
		of      string
	}{
		"session": {runner.Budgets{Session: runner.Budget{Time: time.Minute}}, "the session"},
		"agent":   {runner.Budgets{Agents: map[string]runner.Budget{"solo": {Time: time.Minute}}}, "the agent solo"},
		"exactly": {runner.Budgets{Session: runner.Budget{Time: time.Hour}}, "the session"},
	} {
		t.Run(name, func(t *testing.T) {
			store := sessiontest.Memory(t)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			clock := runner.WithClock(func() time.Time { return now })
			asked := 0
			solo := must.Get(llmagent.New("solo", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
				asked++
				now = now.Add(time.Hour)
				return scripted.Reply(scripted.Text("At last."))
			})))
			run(t, newRunner(t, solo, store, clock), s1, "Hi")
			require.Equal(t, 1, asked)
			r := newRunner(t, solo, store, clock, runner.WithBudgets(c.budgets))
			for range 3 {
				events, err := say(r, s1, "And now?")
				budget := must.As[*agent.BudgetError](err)
				require.Equal(t, c.of, budget.Of)
				require.Equal(t, "seconds", budget.Unit)
				require.Equal(t, event.FinishReasonLimit, endOf(events))
			}
			require.Equal(t, 1, asked, "a model is asked although the time is spent")
		})
	}
}

// TestTimeBetweenSteps: an engine that drives a turn step by step may take its
// time between two steps; no agent runs in it.
func TestTimeBetweenSteps(t *testing.T) {
	store := sessiontest.Memory(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newRunner(t, looks(t, "found"), store, runner.WithClock(func() time.Time { return now }), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Time: time.Minute}}))
	_, _, err := r.Begin(context.Background(), s1, llm.UserText("Hi"))
	require.NoError(t, err)
	for done := false; !done; {
		now = now.Add(time.Hour)
		_, done, err = over(r.Advance(context.Background(), s1, runner.Step{Attempt: 1}))
		require.NoError(t, err)
	}
	require.Equal(t, "looker: done", said(load(t, r, s1)))
}

// TestBudgetsOfOthers: a price and a usage are needed only for what falls under a
// budget that needs them.
func TestBudgetsOfOthers(t *testing.T) {
	answer := func(model string, usage ...scripted.Item) *llmagent.Agent {
		return must.Get(llmagent.New("solo", "", scripted.Always(model, scripted.Reply(append(usage, scripted.Text("Hello."))...)),
			llmagent.WithSubAgents(spender(t, "billing", 0, 0))))
	}
	used := scripted.Usage(10, 5, 0)
	prices := llm.Prices{"priced": {Input: 1, Output: 1}, "billing-model": {Input: 1, Output: 1}}
	for name, c := range map[string]struct {
		before, now *llmagent.Agent // who answers two turns each
		budgets     runner.Budgets
		err         error
	}{
		"tokens of another, no usage": {answer("priced"), answer("priced"), runner.Budgets{Agents: map[string]runner.Budget{"billing": {Tokens: 1000}}}, nil},
		"cost of another, no price":   {answer("local", used), answer("local", used), runner.Budgets{Agents: map[string]runner.Budget{"billing": {Cost: 1}}}, nil},
		"cost of another, no usage":   {answer("local"), answer("local"), runner.Budgets{Agents: map[string]runner.Budget{"billing": {Cost: 1}}}, nil},
		"a turn, no price before it":  {answer("old", used), answer("priced", used), runner.Budgets{Turn: runner.Budget{Cost: 1}}, nil},
		"a turn, no usage before it":  {answer("old"), answer("priced", used), runner.Budgets{Turn: runner.Budget{Tokens: 1000}}, nil},
		"tokens only, no price":       {answer("local", used), answer("local", used), runner.Budgets{Session: runner.Budget{Tokens: 1000}}, nil},
		"tokens of a turn beside cost of another": {answer("local", used), answer("local", used),
			runner.Budgets{Turn: runner.Budget{Tokens: 1000}, Agents: map[string]runner.Budget{"billing": {Cost: 1}}}, nil},
		"a session, no price before":       {answer("old", used), answer("priced", used), runner.Budgets{Session: runner.Budget{Cost: 1}}, agent.ErrUnknownPrice},
		"a session, no usage before":       {answer("old"), answer("priced", used), runner.Budgets{Session: runner.Budget{Tokens: 1000}}, agent.ErrUnknownUsage},
		"the agent's own, no price before": {answer("old", used), answer("priced", used), runner.Budgets{Agents: map[string]runner.Budget{"solo": {Cost: 1}}}, agent.ErrUnknownPrice},
	} {
		t.Run(name, func(t *testing.T) {
			store := sessiontest.Memory(t)
			for range 2 {
				run(t, newRunner(t, c.before, store), s1, "Hi")
			}
			r := newRunner(t, c.now, store, runner.WithPrices(prices), runner.WithBudgets(c.budgets))
			for range 2 {
				_, err := say(r, s1, "Hi")
				require.ErrorIs(t, err, c.err)
			}
		})
	}
}

// TestTimeLimitsSayHowLong: the error of a limit below a second does not speak of
// 0 seconds.
func TestTimeLimitsSayHowLong(t *testing.T) {
	for limit, want := range map[time.Duration]string{50 * time.Millisecond: "50 a turn", 90 * time.Second: "90 a turn"} {
		synctest.Test(t, func(t *testing.T) {
			solo := must.Get(llmagent.New("solo", "", scripted.Always("m", scripted.Reply(scripted.Wait(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })))))
			r := newRun(t, solo, runner.WithLimits(runner.Limits{Time: limit}))
			_, err := say(r, s1, "Hi")
			require.ErrorIs(t, err, agent.ErrLimit)
			require.ErrorContains(t, err, want)
		})
	}
}

// TestABudgetForNobody: a name that nobody has is a slip, which would cost money.
func TestABudgetForNobody(t *testing.T) {
	for name, hint := range map[string]string{"biling": `; did you mean "billing"?`, "desk": ""} {
		_, err := runner.New(paidDesk(t), sessiontest.Memory(t), runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{"billing": {Tokens: 1}, name: {Tokens: 1}}}))
		require.EqualError(t, err, `runner: a budget is set for "`+name+`": no agent of the tree, of a graph or of an agent tool has this name`+hint)
	}
}

// TestBudgetOfAnInnerAgent: what a function runs in a scope of its own has a budget if
// the function's agent tells of it.
func TestBudgetOfAnInnerAgent(t *testing.T) {
	helper := spender(t, "helper", 10, 10)
	root := must.Get(agent.New("root", "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return inv.Runtime().Run(ctx, helper, inv.RunID()+":harness_start", llm.Content{Text: "Go."})
	}, agent.WithInnerAgents(agent.Via(helper))))
	r := newRun(t, root, runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{"helper": {Tokens: 1}}}))
	_, err := collect(r.Run(context.Background(), s1, llm.UserText("Hello")))
	require.Equal(t, "the agent helper", must.As[*agent.BudgetError](err).Of)
}

// TestBudgetsThatAgentsBring: who runs a tree need not know of its budgets, and can make them
// stricter only.
func TestBudgetsThatAgentsBring(t *testing.T) {
	tokens := func(n int64) agent.Budget { return agent.Budget{Tokens: n} }
	for name, c := range map[string]struct {
		root, specialist agent.Budgets
		program          runner.Budgets
		of               string
		turns            int // that are answered before one ends at the budget, as in TestTokenBudgets
	}{
		"own":                      {specialist: agent.Budgets{Own: tokens(900)}, of: "the agent billing", turns: 3},
		"turn":                     {root: agent.Budgets{Turn: tokens(150)}, of: "the turn"},
		"session":                  {root: agent.Budgets{Session: tokens(1030)}, of: "the session", turns: 3},
		"of no root":               {specialist: agent.Budgets{Turn: tokens(1), Session: tokens(1)}, turns: 3},
		"the program's is larger":  {root: agent.Budgets{Session: tokens(1030)}, program: runner.Budgets{Session: tokens(9000)}, of: "the session", turns: 3},
		"the program's is smaller": {specialist: agent.Budgets{Own: tokens(9000)}, program: runner.Budgets{Agents: map[string]runner.Budget{"billing": tokens(500)}}, of: "the agent billing", turns: 2},
	} {
		t.Run(name, func(t *testing.T) {
			billing := spender(t, "billing", 300, 100, llmagent.WithBudgets(c.specialist))
			root := must.Get(llmagent.New("support", "", scripted.Always("support-model", scripted.Reply(
				scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`), scripted.Usage(100, 50, 0))), llmagent.WithSubAgents(billing), llmagent.WithBudgets(c.root)))
			r := newRun(t, root, runner.WithBudgets(c.program))
			for range c.turns {
				run(t, r, s1, "Hello")
			}
			_, err := collect(r.Run(context.Background(), s1, llm.UserText("Hello")))
			if c.of == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.of, must.As[*agent.BudgetError](err).Of)
		})
	}
	root := spender(t, "solo", 1, 1, llmagent.WithBudgets(agent.Budgets{Own: agent.Budget{Time: -1}}))
	_, err := runner.New(root, sessiontest.Memory(t))
	require.ErrorContains(t, err, "a budget is negative")

	// What an agent tool runs is found, too.
	inner := spender(t, "inner", 300, 100, llmagent.WithBudgets(agent.Budgets{Own: tokens(500)}))
	ask := must.Get(agenttool.New(inner))
	outer := must.Get(llmagent.New("outer", "", spender(t, "x", 1, 1).Model(), llmagent.WithTools(ask)))
	tree := must.Get(agent.NewTree(outer))
	require.Equal(t, map[string]agent.Budget{"inner": tokens(500)}, tree.Budgets())
}

// TestCostOfSeveralModels has agents with a cheap and a dear model: a budget of cost holds whichever of them a chain asks
// first, and with both under way at once.
func TestCostOfSeveralModels(t *testing.T) {
	prices := llm.Prices{"cheap": {Input: 1, Output: 1}, "mid": {Input: 60, Output: 60}, "dear": {Input: 100, Output: 100}}
	long := strings.Repeat("word ", 8000)
	says := func(name string, items ...scripted.Item) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer {
			return scripted.Reply(append(items, scripted.Usage(llm.CountRequest(req, llm.EstimateTokens), 50, 0))...)
		})
	}
	for name, c := range map[string]struct {
		model func() (llm.Model, error)
		says  string
		most  float64
		asked []string // the models whose answers are paid
	}{
		"a chain that skips its first model": {func() (llm.Model, error) {
			return policy.NewFallback([]llm.Model{scripted.Always("cheap", scripted.Reply(scripted.Status(429, 0))), says("dear", scripted.Text("Yes."))})
		}, "Hello", 0.02, []string{"dear", "dear"}},
		"a second model beside a dear one": {func() (llm.Model, error) {
			return policy.NewHedge(time.Second, says("dear", after(time.Hour), scripted.Text("Yes.")), says("mid", scripted.Text("No.")))
		}, long, 1.27e-4 * float64(llm.EstimateTokens(long)), []string{"dear"}},
		"a chain beside a dear model that skips its first model": {func() (llm.Model, error) {
			chain, err := policy.NewFallback([]llm.Model{scripted.Always("cheap", scripted.Reply(scripted.Status(429, 0))), says("mid", scripted.Text("No."))}, policy.Cooldown(24*time.Hour))
			if err != nil {
				return nil, err
			}
			for _, err := range chain.Generate(context.Background(), &llm.Request{Messages: []llm.Message{llm.UserText("x")}}) { // cools its first model down
				if err != nil {
					return nil, err
				}
			}
			return policy.NewHedge(time.Second, says("dear", after(time.Hour), scripted.Text("Yes.")), chain)
		}, long, 1.27e-4 * float64(llm.EstimateTokens(long)), []string{"dear"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model, err := c.model()
				require.NoError(t, err)
				desk := must.Get(llmagent.New("desk", "", model, llmagent.WithSettings(llm.Settings{MaxTokens: 50})))
				r := newRun(t, desk, runner.WithPrices(prices), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Cost: c.most}}))
				for range 6 {
					_, err = collect(r.Run(t.Context(), s1, llm.UserText(c.says)))
				}
				spent, asked := 0.0, []string(nil)
				for _, e := range load(t, r, s1) {
					u, _ := e.Data.(*event.Usage)
					if d, ok := e.Data.(*event.Discard); ok {
						u = d.Usage
					}
					if u == nil {
						continue
					}
					cost, known := prices.Cost(u.Model, llm.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens})
					require.True(t, known)
					spent, asked = spent+cost, append(asked, u.Model)
				}
				require.LessOrEqual(t, spent, c.most)
				require.Equal(t, c.asked, asked)
				require.ErrorIs(t, err, agent.ErrLimit)
			})
		})
	}
}

// TestBudgetsOfBrokenOffAnswers has turns whose answers never come to their end: budgets count what was begun, so turns
// end with a budget that is spent. An endpoint that has answered nothing yet charges for the request, too.
func TestBudgetsOfBrokenOffAnswers(t *testing.T) {
	for _, silent := range []bool{false, true} {
		answer := scripted.Reply(scripted.Text("Well, let me think."), after(24*time.Hour))
		if silent {
			answer = scripted.Reply(after(24 * time.Hour))
		}
		endless := func() agent.Agent {
			return must.Get(llmagent.New("slow", "", scripted.Always("slow", answer), llmagent.WithSettings(llm.Settings{MaxTokens: 100})))
		}
		hedge := must.Get(policy.NewHedge(time.Minute, scripted.Always("slow", answer), scripted.Always("slower", answer)))
		fails := must.Get(llmagent.New("fails", "", scripted.Always("fails", scripted.Reply(after(time.Second), scripted.Status(400, 0)))))
		tool := must.Get(agenttool.New(endless(), agenttool.WithTimeout(time.Second)))
		calls := scripted.Func("calls", func(req *llm.Request) scripted.Answer {
			if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
				return scripted.Reply(scripted.Text("Sorry."), scripted.Usage(1, 1, 0))
			}
			return scripted.Reply(scripted.Call("slow", `{"input":"x"}`), scripted.Usage(1, 1, 0))
		})
		inputs := make(map[string]int)
		for name, c := range map[string]struct {
			root           agent.Agent
			breaks, cancel bool
		}{
			"its context ends":       {endless(), false, true},
			"its consumer breaks":    {endless(), true, false},
			"two models":             {must.Get(llmagent.New("slow", "", hedge)), false, true},
			"in a workflow":          {must.Get(workflowagent.Parallel("both", "", []agent.Agent{endless()})), false, true},
			"another branch fails":   {must.Get(workflowagent.Parallel("both", "", []agent.Agent{endless(), fails})), false, false},
			"a workflow's time ends": {must.Get(workflowagent.Sequential("line", "", []agent.Agent{endless()}, workflowagent.WithTimeout(time.Second))), false, false},
			"a tool's time ends":     {must.Get(llmagent.New("calls", "", calls, llmagent.WithTools(tool))), false, false},
		} {
			t.Run(fmt.Sprintf("%s, silent %t", name, silent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRunner(t, c.root, sessiontest.Memory(t), runner.WithStreaming(), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1000}}))
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					for e, err := range sessiontest.Turn(t, r.Run(ctx, s1, llm.UserText("Hello"))) {
						if err == nil && e.Partial && c.cancel {
							cancel()
						} else if err == nil && e.Partial && c.breaks {
							break
						}
					}
					require.True(t, slices.ContainsFunc(load(t, r, s1), func(e *event.Event) bool {
						d, ok := e.Data.(*event.Discard)
						if ok && d.Usage != nil {
							inputs[name] = d.Usage.InputTokens
						}
						return inputs[name] > 0 && (silent || d.Usage.OutputTokens > 0)
					}), "what was begun costs nothing")
				})
			})
		}
		if silent {
			require.Equal(t, 2*inputs["its context ends"], inputs["two models"], "both requests were under way")
		}
	}
}

// TestBudgetsOfEmptyAnswers has a model whose two answers have no text: the log charges each of them once, under a budget
// too.
func TestBudgetsOfEmptyAnswers(t *testing.T) {
	a := must.Get(llmagent.New("mute", "", scripted.Always("mute", scripted.Reply(scripted.Usage(7, 2, 0)))))
	r := newRunner(t, a, sessiontest.Memory(t), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 10_000}}))
	_, err := collect(r.Run(t.Context(), s1, llm.UserText("Hello")))
	require.Error(t, err)
	var charged int
	for _, e := range load(t, r, s1) {
		if d, ok := e.Data.(*event.Discard); ok && d.Usage != nil {
			charged += d.Usage.InputTokens + d.Usage.OutputTokens
		}
	}
	require.Equal(t, 18, charged)
}

// TestBudgetsOfLosers has two agents side by side. What one of them reserves for an answer stays reserved when another
// model has lost the race for that answer.
func TestBudgetsOfLosers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := scripted.Always("late", scripted.Reply(after(time.Hour), scripted.Text("Late.")))
		wins := scripted.Always("wins", scripted.Reply(scripted.Text("Well. "), after(time.Minute), scripted.Text("Yes."), scripted.Usage(10, 300, 0)))
		hedge := must.Get(policy.NewHedge(time.Second, late, wins))
		settings := llmagent.WithSettings(llm.Settings{MaxTokens: 300})
		first := must.Get(llmagent.New("first", "", hedge, settings))
		fine := must.Get(tools.Func("fine", "", func(tools.Context, struct{}) (string, error) { return "fine", nil }))
		second := must.Get(llmagent.New("second", "", scripted.Always("second", scripted.Reply(after(2*time.Second), scripted.Call("fine", "{}"), scripted.Usage(10, 290, 0))),
			settings, llmagent.WithTools(fine)))
		caller := func(a agent.Agent) tools.Tool {
			return must.Get(agenttool.New(a))
		}
		root := must.Get(llmagent.New("root", "", scripted.New().Add("root", scripted.Reply(scripted.Call("first", `{"input":"x"}`), scripted.Call("second", `{"input":"x"}`), scripted.Usage(1, 1, 0))).
			Always("root", scripted.Reply(scripted.Text("Done."), scripted.Usage(1, 1, 0))).Model("root"), llmagent.WithTools(caller(first), caller(second))))
		r := newRunner(t, root, sessiontest.Memory(t), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1100}}))
		_, _ = collect(r.Run(t.Context(), s1, llm.UserText("Hello")))
		spent := 0
		for _, e := range load(t, r, s1) {
			u, _ := e.Data.(*event.Usage)
			if d, ok := e.Data.(*event.Discard); ok {
				u = d.Usage
			}
			if u != nil {
				spent += u.InputTokens + u.OutputTokens
			}
		}
		require.Greater(t, spent, 600, "both have answered")
		require.LessOrEqual(t, spent, 1100)
	})
}
