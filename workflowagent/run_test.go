package workflowagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/workflowagent"
)

func TestSequential(t *testing.T) {
	c := &calls{}
	a := c.adds(t, "a")
	log := must.Get(run(t, sequential(t, "line", []agent.Agent{a, c.adds(t, "b"), a})))
	require.Equal(t, []string{"a", "b", "a"}, c.made)
	require.JSONEq(t, `"go a b a"`, string(output(t, log)))
	require.Equal(t, "go a b a", said(log))
	var starts []string
	for _, e := range log {
		if _, ok := e.Data.(*event.HarnessStart); ok && e.Scope != "" {
			starts = append(starts, e.Scope[strings.LastIndex(e.Scope, ".")+1:]+" after "+e.ParentID[strings.Index(e.ParentID, ":")+1:])
		}
	}
	require.Equal(t, []string{"1/a after harness_start", "2/b after harness_end", "3/a after harness_end"}, starts)
}

// What is no text stays what it is, from child to child.
func TestOutputsAreJSON(t *testing.T) {
	c := &calls{}
	number := c.does(t, "number", func(context.Context, string) (any, error) { return map[string]any{"n": 1}, nil })
	log := must.Get(run(t, sequential(t, "line", []agent.Agent{number, parallel(t, "both", []agent.Agent{c.adds(t, "x"), number})})))
	require.Equal(t, `{"x":"{\"n\":1} x","number":{"n":1}}`, string(output(t, log)))
	require.Equal(t, string(output(t, log)), said(log))
}

func TestFirstErrorEndsASequence(t *testing.T) {
	c := &calls{}
	broken := errors.New("broken")
	bad := c.does(t, "bad", func(context.Context, string) (any, error) { return nil, broken })
	log, err := run(t, sequential(t, "line", []agent.Agent{c.adds(t, "a"), bad, c.adds(t, "b")}))
	require.ErrorIs(t, err, broken)
	var runErr *agent.RunError
	require.ErrorAs(t, err, &runErr)
	require.Equal(t, []string{"a", "bad"}, c.made)
	require.Equal(t, []string{"error"}, ends(log, "line"))
	require.Empty(t, said(log))
}

// TestParallelOverlaps: none of them ends before all have begun, and the output has the
// declared order, whoever was first.
func TestParallelOverlaps(t *testing.T) {
	for _, n := range []int{1, 3, 64} {
		synctest.Test(t, func(t *testing.T) {
			c := &calls{}
			together := meet(n)
			var agents []agent.Agent
			var want []string
			for i := range n {
				agents = append(agents, c.does(t, fmt.Sprint("w", i), func(ctx context.Context, in string) (any, error) {
					err := together(ctx)
					time.Sleep(time.Duration(n-i) * time.Second) // the last is first
					return i, err
				}))
				want = append(want, fmt.Sprintf(`"w%d":%d`, i, i))
			}
			log := must.Get(run(t, parallel(t, "wide", agents)))
			require.Equal(t, "{"+strings.Join(want, ",")+"}", string(output(t, log)))
		})
	}
}

func TestParallelSays(t *testing.T) {
	c := &calls{}
	log := must.Get(run(t, parallel(t, "both", []agent.Agent{c.adds(t, "a"), c.adds(t, "b")})))
	require.Equal(t, "a: go a\n\nb: go b", said(log))
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		running, most := make(chan struct{}, 10), 0
		var agents []agent.Agent
		for i := range 7 {
			agents = append(agents, c.does(t, fmt.Sprint("w", i), func(ctx context.Context, in string) (any, error) {
				running <- struct{}{}
				time.Sleep(time.Second)
				c.mu.Lock()
				most = max(most, len(running))
				c.mu.Unlock()
				time.Sleep(time.Second)
				<-running
				return i, nil
			}))
		}
		must.Get(run(t, parallel(t, "wide", agents, workflowagent.WithConcurrency(2))))
		require.Equal(t, 2, most)
		require.Len(t, c.made, 7)
	})
}

// TestFirstErrorCancels: the others see their context end, and what they leave is recorded.
func TestFirstErrorCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		broken, canceled := errors.New("broken"), false
		all := meet(3)
		log, err := run(t, parallel(t, "wide", []agent.Agent{
			c.does(t, "quick", func(ctx context.Context, _ string) (any, error) { return "done", all(ctx) }),
			c.does(t, "slow", func(ctx context.Context, _ string) (any, error) {
				if err := all(ctx); err != nil {
					return nil, err
				}
				<-ctx.Done()
				canceled = true
				return nil, ctx.Err()
			}),
			c.does(t, "bad", func(ctx context.Context, _ string) (any, error) {
				err := all(ctx)
				time.Sleep(time.Second)
				return nil, errors.Join(err, broken)
			}),
		}))
		require.ErrorIs(t, err, broken)
		require.True(t, canceled)
		require.Equal(t, []string{`"done"`}, ends(log, "quick"))
		require.Equal(t, []string{"canceled"}, ends(log, "slow"))
		require.Equal(t, []string{"error"}, ends(log, "bad"))
		require.Equal(t, []string{"error"}, ends(log, "wide"))
	})
}

func TestCollect(t *testing.T) {
	c := &calls{}
	bad := c.does(t, "bad", func(context.Context, string) (any, error) { return nil, errors.New("it is broken") })
	log := must.Get(run(t, parallel(t, "wide", []agent.Agent{bad, c.adds(t, "good")}, workflowagent.Collect())))
	require.Equal(t, `{"bad":{"error":"it is broken"},"good":"go good"}`, string(output(t, log)))
}

// A limit of the turn is met by all, and collected by nobody.
func TestCollectPassesLimitsOn(t *testing.T) {
	s := scripted.New().Add("one", scripted.Reply(scripted.Text("1"))).Add("two", scripted.Reply(scripted.Text("2")))
	var agents []agent.Agent
	for _, name := range []string{"one", "two"} {
		a := must.Get(llmagent.New(name, "", s.Model(name)))
		agents = append(agents, a)
	}
	log, err := run(t, sequential(t, "line", []agent.Agent{agents[0], parallel(t, "wide", agents[1:], workflowagent.Collect())}),
		runner.WithLimits(runner.Limits{ModelCalls: 1}))
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Equal(t, []string{"limit"}, ends(log, "wide"))
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		slow := c.does(t, "slow", func(ctx context.Context, _ string) (any, error) { <-ctx.Done(); return nil, context.Cause(ctx) })
		_, err := run(t, sequential(t, "line", []agent.Agent{slow}, workflowagent.WithTimeout(time.Minute)))
		require.ErrorIs(t, err, agent.ErrTimeout)
	})
}

// longer says whether a loop's text has so many characters.
func longer(n int) workflowagent.Option {
	return workflowagent.Until(func(_ context.Context, _ *agent.Invocation, out json.RawMessage) (bool, error) {
		return len(event.OutputText(out)) >= n, nil
	})
}

func TestLoop(t *testing.T) {
	for name, c := range map[string]struct {
		opts   []workflowagent.Option
		output string
		codes  []string
	}{
		"until": {[]workflowagent.Option{longer(7)}, "go a b a b", nil}, // after whole rounds only
		"limit": {[]workflowagent.Option{longer(99), workflowagent.WithLimit(3)}, "go a b a b a b", []string{"loop_limit"}},
		"once":  {[]workflowagent.Option{workflowagent.WithLimit(1)}, "go a b", []string{"loop_limit"}},
		"ten":   {nil, "go" + strings.Repeat(" a b", 10), []string{"loop_limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			made := &calls{}
			log := must.Get(run(t, loop(t, "again", []agent.Agent{made.adds(t, "a"), made.adds(t, "b")}, c.opts...)))
			require.Equal(t, c.output, event.OutputText(output(t, log)))
			require.Equal(t, c.codes, codes(log))
		})
	}
}

func TestLoopFails(t *testing.T) {
	c := &calls{}
	a := []agent.Agent{c.adds(t, "a")}
	log, err := run(t, loop(t, "again", a, workflowagent.WithLimit(2), workflowagent.FailAtLimit()))
	require.ErrorIs(t, err, workflowagent.ErrLoopLimit)
	require.Equal(t, "loop_limit", find[*event.Failure](log)[0].Code)
	broken := errors.New("broken")
	_, err = run(t, loop(t, "again", a, workflowagent.Until(func(context.Context, *agent.Invocation, json.RawMessage) (bool, error) { return false, broken })))
	require.ErrorIs(t, err, broken)
	_, err = run(t, loop(t, "again", a, workflowagent.Until(func(context.Context, *agent.Invocation, json.RawMessage) (bool, error) { panic("no") })))
	require.ErrorContains(t, err, "internal error")
}

// leaver makes an agent whose model calls the exit tool.
func leaver(t testing.TB, name, arguments string) agent.Agent {
	t.Helper()
	s := scripted.New()
	for i := range 3 {
		s.Add(name, scripted.Reply(scripted.CallID(fmt.Sprint(name, i), workflowagent.ExitToolName, arguments)), scripted.Reply(scripted.Text("I have seen enough.")))
	}
	exit := must.Get(workflowagent.ExitTool())
	return must.Get(llmagent.New(name, "", s.Model(name), llmagent.WithTools(exit)))
}

func TestExitTool(t *testing.T) {
	for name, c := range map[string]struct {
		build  func(c *calls) agent.Agent
		output string
		made   []string
	}{
		"what it was given": {func(c *calls) agent.Agent {
			return loop(t, "again", []agent.Agent{c.adds(t, "a"), leaver(t, "critic", `{}`), c.adds(t, "b")})
		}, `"go a"`, []string{"a"}},
		"a result": {func(c *calls) agent.Agent {
			return loop(t, "again", []agent.Agent{leaver(t, "critic", `{"result":"all of it"}`), c.adds(t, "b")})
		}, `"all of it"`, nil},
		"not what is no call of it": {func(c *calls) agent.Agent {
			return loop(t, "again", []agent.Agent{c.adds(t, "a"), leaver(t, "critic", `{"result":1}`)}, workflowagent.WithLimit(1))
		}, `"I have seen enough."`, []string{"a"}},
		"the inner loop only": {func(c *calls) agent.Agent { // google/adk-go issue 522, google/adk-python issue 2808
			inner := loop(t, "inner", []agent.Agent{leaver(t, "critic", `{}`), c.adds(t, "b")})
			return loop(t, "outer", []agent.Agent{c.adds(t, "a"), inner, c.adds(t, "c")}, workflowagent.WithLimit(2))
		}, `"go a c a c"`, []string{"a", "c", "a", "c"}},
		"a sequence between": {func(c *calls) agent.Agent {
			inner := sequential(t, "inner", []agent.Agent{c.adds(t, "b"), leaver(t, "critic", `{}`), c.adds(t, "x")})
			return sequential(t, "all", []agent.Agent{loop(t, "outer", []agent.Agent{c.adds(t, "a"), inner, c.adds(t, "y")}), c.adds(t, "end")})
		}, `"go a b end"`, []string{"a", "b", "end"}},
		"a parallel between": {func(c *calls) agent.Agent {
			inner := parallel(t, "inner", []agent.Agent{leaver(t, "critic", `{}`), c.adds(t, "x")})
			return loop(t, "outer", []agent.Agent{c.adds(t, "a"), inner, c.adds(t, "y")})
		}, `{"critic":"go a","x":"go a x"}`, []string{"a", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			made := &calls{}
			log := must.Get(run(t, c.build(made)))
			require.Equal(t, c.output, string(output(t, log)))
			require.Equal(t, c.made, made.made)
		})
	}
}

// TestEverywhere: a workflow behind an agent tool and as a node of a graph.
func TestEverywhere(t *testing.T) {
	c := &calls{}
	line := sequential(t, "line", []agent.Agent{c.adds(t, "a"), parallel(t, "both", []agent.Agent{c.adds(t, "b")})})
	g := must.Get(agentgraph.NewBuilder("g").Node("n", line).Build())
	log := must.Get(run(t, g))
	require.Equal(t, `{"b":"go a b"}`, string(output(t, log)))

	tool := must.Get(agenttool.New(line))
	s := scripted.New().Add("front", scripted.Reply(scripted.CallID("c1", "line", `{"input":"it"}`)), scripted.Reply(scripted.Text("So.")))
	front := must.Get(llmagent.New("front", "", s.Model("front"), llmagent.WithTools(tool)))
	log = must.Get(run(t, front))
	require.Equal(t, `{"b":"it a b"}`, event.OutputText(find[*event.ToolResult](log)[0].Output))
}

// TestGuards: those of a workflow check its children's words and its own.
func TestGuards(t *testing.T) {
	s := scripted.New().Add("one", scripted.Reply(scripted.Text("the secret")))
	one := must.Get(llmagent.New("one", "", s.Model("one")))
	guard := agent.Guard{Name: "quiet", Out: func(_ context.Context, _ *agent.Invocation, text string) error {
		if strings.Contains(text, "secret") {
			return errors.New("no secrets")
		}
		return nil
	}}
	log, err := run(t, sequential(t, "line", []agent.Agent{one}, workflowagent.WithGuards(guard)))
	require.ErrorAs(t, err, new(*agent.TripwireError))
	for _, e := range log {
		require.NotContains(t, e.Text(), "secret")
	}
	c := &calls{}
	bad := c.does(t, "bad", func(context.Context, string) (any, error) { return "the secret", nil })
	_, err = run(t, sequential(t, "line", []agent.Agent{bad}, workflowagent.WithGuards(guard)))
	require.ErrorAs(t, err, new(*agent.TripwireError))
}

// TestBudgets: a budget can be set for a child by its name.
func TestBudgets(t *testing.T) {
	s := scripted.New().Add("one", scripted.Reply(scripted.Text("1"), scripted.Usage(100, 100, 0))).Add("two", scripted.Reply(scripted.Text("2")))
	one := must.Get(llmagent.New("one", "", s.Model("one")))
	two := must.Get(llmagent.New("two", "", s.Model("two")))
	line := sequential(t, "line", []agent.Agent{one, sequential(t, "inner", []agent.Agent{two})})
	store := sessiontest.Memory(t)
	_, err := say(t, newRunner(t, line, store, runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{"two": {Tokens: 1}}})), store, "go")
	require.Equal(t, "the agent two", must.As[*agent.BudgetError](err).Of)
}

func TestConstructors(t *testing.T) {
	c := &calls{}
	a := c.adds(t, "a")
	for want, makes := range map[string]func() (agent.Agent, error){
		`workflow "no name": agent name`: func() (agent.Agent, error) { return workflowagent.Loop("no name", "", []agent.Agent{a}) },
		"it has no agents":               func() (agent.Agent, error) { return workflowagent.Sequential("x", "", nil) },
		"agent 1: ":                      func() (agent.Agent, error) { return workflowagent.Sequential("x", "", []agent.Agent{a, nil}) },
		`two agents have the name "a"`:   func() (agent.Agent, error) { return workflowagent.Parallel("x", "", []agent.Agent{a, a}) },
		"option 0 is nil":                func() (agent.Agent, error) { return workflowagent.Sequential("x", "", []agent.Agent{a}, nil) },
		"Collect is an option of parallel workflows, and this is loop": func() (agent.Agent, error) {
			return workflowagent.Loop("x", "", []agent.Agent{a}, workflowagent.Collect())
		},
		"Until is an option of loop workflows, and this is sequential": func() (agent.Agent, error) {
			return workflowagent.Sequential("x", "", []agent.Agent{a}, longer(1))
		},
		"the limit is 0 rounds": func() (agent.Agent, error) {
			return workflowagent.Loop("x", "", []agent.Agent{a}, workflowagent.WithLimit(0))
		},
		"negative": func() (agent.Agent, error) {
			return workflowagent.Parallel("x", "", []agent.Agent{a}, workflowagent.WithConcurrency(-1))
		},
	} {
		_, err := makes()
		require.ErrorContains(t, err, want)
	}
}
