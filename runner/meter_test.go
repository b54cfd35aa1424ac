package runner_test

import (
	"context"
	"errors"
	"iter"
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
)

// letters counts a token a letter.
func letters(s string) int { return len(s) }

// solo is an agent whose model gives these answers, one after the other.
func solo(t *testing.T, name string, answers ...scripted.Answer) *llmagent.Agent {
	return must.Get(llmagent.New(name, "Be brief.", scripted.Func(name+"-model", func(*llm.Request) scripted.Answer {
		next := answers[0]
		answers = answers[1:]
		return next
	})))
}

// charges returns the usages of a log, those of discarded answers too, and the notices
// that they are estimates.
func charges(events []*event.Event) (used []llm.Usage, notices []string) {
	for _, e := range events {
		switch d := e.Data.(type) {
		case *event.Usage:
			used = append(used, llm.Usage{InputTokens: d.InputTokens, OutputTokens: d.OutputTokens})
		case *event.Discard:
			if d.Usage != nil {
				used = append(used, llm.Usage{InputTokens: d.Usage.InputTokens, OutputTokens: d.Usage.OutputTokens})
			}
		case *event.Notice:
			if d.Code == "usage_estimated" {
				notices = append(notices, d.Message)
			}
		}
	}
	return used, notices
}

// TestMissingUsageIsEstimated: a budget that an endpoint without usage falls under is
// charged an estimate, which the log says it is.
func TestMissingUsageIsEstimated(t *testing.T) {
	for name, streaming := range map[string][]runner.Option{"whole": nil, "streamed": {runner.WithStreaming()}} {
		t.Run(name, func(t *testing.T) {
			store := sessiontest.Memory(t)
			made := func(tokens int64) *runner.Runner {
				a := must.Get(llmagent.New("solo", "Be brief.", scripted.Always("m", scripted.Reply(scripted.Think("So."), scripted.Text("Yes, ", "Sir.")))))
				return newRunner(t, a, store, append(streaming, runner.WithTokenCounter(letters),
					runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: tokens}, MissingUsage: runner.EstimateMissingUsage}))...)
			}
			r := made(1000)
			preview := must.Get(r.Preview(t.Context(), s1, "solo"))
			events := run(t, r, s1, "Hi")
			used, notices := charges(events)
			require.Len(t, used, 1)
			require.Equal(t, preview.Tokens+llm.MessageTokens+len("Hi"), used[0].InputTokens)
			require.Equal(t, len("So.Yes, Sir."), used[0].OutputTokens)
			require.Len(t, notices, 1)
			require.Contains(t, notices[0], `the endpoint of the model "m" did not say what its answer has used`)
			run(t, r, s1, "Hi")
			used, notices = charges(load(t, r, s1))
			require.Len(t, notices, 2)
			spent := int64(used[0].InputTokens + used[0].OutputTokens + used[1].InputTokens + used[1].OutputTokens)

			_, err := say(made(spent+1), s1, "Hi")
			require.EqualValues(t, spent, must.As[*agent.BudgetError](err).Used)
		})
	}
	for name, c := range map[string]struct {
		answer  scripted.Answer
		opts    []runner.Option
		used    llm.Usage
		notices int
	}{
		"reported":        {scripted.Reply(scripted.Text("Yes."), scripted.Usage(7, 3, 0)), nil, llm.Usage{InputTokens: 7, OutputTokens: 3}, 0},
		"cannot be true":  {scripted.Reply(scripted.Text("Yes."), scripted.Usage(-7, 3, 0)), nil, llm.Usage{InputTokens: 22, OutputTokens: 4}, 1},
		"default counter": {scripted.Reply(scripted.Text("Yes."), scripted.Usage(0, 0, 0)), []runner.Option{runner.WithTokenCounter(nil)}, llm.Usage{InputTokens: 15, OutputTokens: 2}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, solo(t, "solo", c.answer), append([]runner.Option{runner.WithTokenCounter(letters),
				runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 1000}, MissingUsage: runner.EstimateMissingUsage})}, c.opts...)...)
			events := run(t, r, s1, "Hi")
			used, notices := charges(events)
			require.Equal(t, []llm.Usage{c.used}, used)
			require.Len(t, notices, c.notices)
		})
	}
}

// TestBrokenAnswersAreCharged: a stream that broke was paid for, and no endpoint says how
// much. A request that failed before anything came costs nothing.
func TestBrokenAnswersAreCharged(t *testing.T) {
	whole := scripted.Reply(scripted.Text("Yes."), scripted.Usage(5, 5, 0))
	budgeted := runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 10_000}})
	for name, c := range map[string]struct {
		broken  scripted.Answer
		opts    []runner.Option
		charged []int // the output of what broke
		err     string
	}{
		"cut":                     {scripted.Reply(scripted.Text("Half", " an"), scripted.Cut()), []runner.Option{budgeted}, []int{7}, ""},
		"failed":                  {scripted.Reply(scripted.Text("Half"), scripted.Fail(&llm.Error{Code: llm.CodeServer, Retryable: true})), []runner.Option{budgeted}, []int{4}, ""},
		"after a call":            {scripted.Reply(scripted.CallID("c", "f", "{}"), scripted.Cut()), []runner.Option{budgeted}, []int{8 + 3}, ""},
		"before anything, cut":    {scripted.Reply(scripted.Fail(&llm.Error{Code: llm.CodeTruncated, Retryable: true})), []runner.Option{budgeted}, []int{0}, ""},
		"before anything, failed": {scripted.Reply(scripted.Status(503, 0)), []runner.Option{budgeted}, nil, "server_error"},
		"no budget":               {scripted.Reply(scripted.Text("Half"), scripted.Cut()), nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, solo(t, "solo", c.broken, whole), append(c.opts, runner.WithTokenCounter(letters))...)
			events, err := say(r, s1, "Hi")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			var charged []int
			for _, e := range events {
				if d, ok := e.Data.(*event.Discard); ok && d.Usage != nil {
					charged = append(charged, d.Usage.OutputTokens)
					require.Positive(t, d.Usage.InputTokens)
				}
			}
			require.Equal(t, c.charged, charged)
			_, notices := charges(events)
			require.Len(t, notices, len(charged))
		})
	}
}

// TestHeldBackRequestsAreFree: a turn that is cancelled before its model was asked costs nothing.
func TestHeldBackRequestsAreFree(t *testing.T) {
	slow := scripted.Always("slow", scripted.Reply(after(time.Hour)))
	limit, places := must.Get(policy.NewRateLimit(0.001, 1)), must.Get(policy.NewConcurrency(1))
	held := limit.Wrap(slow)
	for name, m := range map[string]llm.Model{"rate": held, "places": places.Wrap(slow), "fallback": must.Get(policy.NewFallback([]llm.Model{held, slow}))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, wrapped := range []llm.Model{held, places.Wrap(slow)} { // take what there is
					go func() {
						for range wrapped.Generate(t.Context(), new(llm.Request)) {
						}
					}()
				}
				synctest.Wait()
				r := newRun(t, must.Get(llmagent.New("solo", "", m)), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1000}}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for _, err := range r.Run(ctx, s1, llm.UserText("Hello")) {
					if err != nil {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
				}
				used, _ := charges(load(t, r, s1))
				require.Empty(t, used)
			})
		})
	}
}

// TestUsageBeforeTheEnd: a usage that an endpoint reports before the rest of an answer misses the rest, which is
// estimated.
func TestUsageBeforeTheEnd(t *testing.T) {
	early := func(output int, finish llm.FinishReason) llm.Model {
		return modelFunc(func(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				for _, c := range []llm.Chunk{{Usage: &llm.Usage{InputTokens: 90, OutputTokens: output, CachedTokens: 5}}, {Text: "Half an"}, {Text: " hour", Finish: finish}} {
					if !yield(c, nil) {
						return
					}
				}
			}
		})
	}
	for name, c := range map[string]struct {
		model  llm.Model
		output int
	}{"whole": {early(1, llm.FinishStop), 12}, "broken off": {early(1, ""), 12}, "more": {early(20, ""), 20}} {
		r := newRun(t, must.Get(llmagent.New("solo", "", c.model)), runner.WithTokenCounter(letters), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1000}}))
		events, _ := say(r, s1, "Hi")
		used, _ := charges(events)
		require.NotEmpty(t, used, name)
		for _, u := range used {
			require.Equal(t, llm.Usage{InputTokens: 90, OutputTokens: c.output}, u, name)
		}
	}
	r := newRun(t, must.Get(llmagent.New("solo", "", early(1, ""))), runner.WithStreaming(), runner.WithTokenCounter(letters), runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1000}}))
	for e, err := range r.Run(t.Context(), s1, llm.UserText("Hi")) {
		if require.NoError(t, err); e.Partial {
			break
		}
	}
	used, _ := charges(load(t, r, s1))
	require.Equal(t, []llm.Usage{{InputTokens: 90, OutputTokens: len("Half an")}}, used, "the consumer stops reading")
}

// TestBrokenAnswersAreNoUsage: that a broken answer is charged does not make an endpoint
// one that reports what it uses.
func TestBrokenAnswersAreNoUsage(t *testing.T) {
	root := solo(t, "solo", scripted.Reply(scripted.Text("Half"), scripted.Cut()), scripted.Reply(scripted.Text("Yes.")), scripted.Reply(scripted.Text("Again.")))
	r := newRun(t, root, runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1e6}}))
	run(t, r, s1, "Hi")
	_, err := say(r, s1, "Hi")
	require.ErrorIs(t, err, agent.ErrUnknownUsage)
}

// TestUsageThatIsMissingSometimes: an endpoint that reports what some of its answers use gets none of the others for
// nothing.
func TestUsageThatIsMissingSometimes(t *testing.T) {
	silent := func() scripted.Answer { return scripted.Reply(scripted.Text("Again.")) }
	for name, budgets := range map[string]runner.Budgets{"turn": {Turn: runner.Budget{Tokens: 1000}}, "session": {Session: runner.Budget{Tokens: 1000}},
		"agent": {Agents: map[string]runner.Budget{"solo": {Tokens: 1000}}}} {
		t.Run(name, func(t *testing.T) {
			root := solo(t, "solo", scripted.Reply(scripted.Text("Yes."), scripted.Usage(7, 3, 0)), silent(), scripted.Reply(scripted.Text("No."), scripted.Usage(-1, 3, 0)), silent())
			r := newRun(t, root, runner.WithTokenCounter(letters), runner.WithBudgets(budgets))
			for range 4 {
				run(t, r, s1, "Hi")
			}
			used, notices := charges(load(t, r, s1))
			require.Len(t, used, 4)
			for _, u := range used {
				require.Positive(t, u.InputTokens)
				require.Positive(t, u.OutputTokens)
			}
			require.Len(t, notices, 3)
		})
	}
}

// TestMissingUsageEverywhere: agents inside of tools and functions that ask a model are
// charged too, and what was recorded before estimates were charged counts nothing.
func TestMissingUsageEverywhere(t *testing.T) {
	helper := must.Get(agenttool.New(solo(t, "helper", scripted.Reply(scripted.Text("Found.")), scripted.Reply(scripted.Text("Found.")))))
	m := callsThen("root-model", "Done.", scripted.Call("helper", `{"input":"x"}`))
	caller := must.Get(llmagent.New("root", "Ask.", m, llmagent.WithTools(helper)))
	function := must.Get(agent.New("root", "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for chunk, err := range inv.Runtime().Ask(ctx, inv, scripted.Always("f", scripted.Reply(scripted.Text("Yes."))), &llm.Request{Messages: []llm.Message{llm.UserText("Hi")}}) {
				if err != nil {
					yield(nil, err)
					return
				}
				if chunk.Finish != "" { // and looks no further
					u := &event.Usage{Model: "f"}
					if chunk.Usage != nil {
						u.InputTokens, u.OutputTokens = chunk.Usage.InputTokens, chunk.Usage.OutputTokens
					}
					yield(&event.Event{Data: u}, nil)
					return
				}
			}
			yield(nil, errors.New("no terminal chunk"))
		}
	}))
	for name, root := range map[string]agent.Agent{"an agent tool": caller, "a function": function} {
		t.Run(name, func(t *testing.T) {
			store := sessiontest.Memory(t)
			before := newRunner(t, root, store)
			run(t, before, s1, "Hi")
			r := newRunner(t, root, store, runner.WithBudgets(runner.Budgets{Session: runner.Budget{Cost: 1}, MissingUsage: runner.EstimateMissingUsage}),
				runner.WithPrices(llm.Prices{"f": {Input: 1}, "root-model": {Input: 1}, "helper-model": {Input: 1}}))
			events := run(t, r, s1, "Hi")
			used, notices := charges(events)
			require.NotEmpty(t, used)
			require.Len(t, notices, len(used))
			for _, u := range used {
				require.Positive(t, u.InputTokens)
			}
		})
	}
	_, err := runner.New(caller, sessiontest.Memory(t), runner.WithBudgets(runner.Budgets{MissingUsage: 2}))
	require.EqualError(t, err, "runner: unknown MissingUsage 2")
}
