package agentgraph_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// pausing makes a graph with a node that is about to be called again, in an hour.
func pausing(t testing.TB) *agentgraph.Agent {
	a := must.Get(agentgraph.NewBuilder("pausing").Node("a", gives(t, 1)).Node("b", fails(t, 1, "not yet", 2)).Node("c", gives(t, 3)).
		Edge("a", "b").Edge("b", "c").OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Retry, MaxRetries: 3}).
		Build(agentgraph.WithBackoff(time.Hour, time.Hour)))
	return a
}

// TestLimitInPause: a limit that is reached while nothing runs ends the run, and the
// result says so.
func TestLimitInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result, events, err := try(t, pausing(t), "go", runner.WithLimits(runner.Limits{Time: time.Minute}))
		require.ErrorIs(t, err, agent.ErrLimit)
		require.Equal(t, agentgraph.Failed, result.Status)
		require.Contains(t, result.Error.Message, "60")
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 0}, result.Calls)
		requireClosed(t, events, "limit")
	})
}

// TestCancelInPause: who cancels need not wait for the pause, and who goes on does not
// either.
func TestCancelInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := pausing(t)
		r := must.Get(runner.New(a, sessiontest.Memory(t)))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var failed error
		for _, err := range r.Run(ctx, key, llm.UserText("go")) {
			failed = err
		}
		require.ErrorIs(t, failed, context.DeadlineExceeded)
		result := resultsOf(t, a, r)[0]
		require.Equal(t, agentgraph.Cancelled, result.Status)
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 0}, result.Calls)
		for _, err := range r.Resume(context.Background(), key) {
			require.NoError(t, err)
		}
		result = resultsOf(t, a, r)[0]
		require.Equal(t, agentgraph.Completed, result.Status)
		require.Equal(t, map[string]int{"a": 1, "b": 2, "c": 1}, result.Calls)
		require.Less(t, time.Since(began), time.Minute)
	})
}

// TestManyRunsInOneLog: what is read of a log costs the same for each of its runs.
func TestManyRunsInOneLog(t *testing.T) {
	a := must.Get(agentgraph.NewBuilder("small").Node("a", gives(t, 1)).Node("b", gives(t, 2)).Edge("a", "b").Build())
	s := &scene{}
	root := s.hasTool("root", "Done.", s.agentTool(a))
	require.NoError(t, s.err)
	r := must.Get(runner.New(root, sessiontest.Memory(t)))
	for range 300 {
		for _, err := range r.Run(context.Background(), key, llm.UserText("go")) {
			require.NoError(t, err)
		}
	}
	results := resultsOf(t, a, r)
	require.Len(t, results, 300)
	for _, result := range results {
		require.Equal(t, agentgraph.Completed, result.Status)
	}
}

// TestStopWithoutRestart: a process that continues with fewer agents at once, and has
// to stop, also ends those that it has not started.
func TestStopWithoutRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		build := func(opts ...agentgraph.AgentOption) *agentgraph.Agent {
			waits := does(t, "waits", func(ctx context.Context, _ any) (any, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
			b := does(t, "b", func(context.Context, any) (any, error) {
				time.Sleep(time.Second)
				return nil, errors.New("broken")
			})
			a := must.Get(agentgraph.NewBuilder("stops").Node("a", gives(t, 1)).Node("b", b).Node("c", waits).Node("d", waits).Node("z", gives(t, "saved")).
				Edge("a", "b").Edge("a", "c").Edge("a", "d").OnError(agentgraph.ErrorHandling{Fallback: "z"}).Build(opts...))
			return a
		}
		store := sessiontest.Memory(t)
		r := must.Get(runner.New(build(), store))
		for e, err := range r.Run(context.Background(), key, llm.UserText("go")) {
			require.NoError(t, err)
			if e.Agent == "d" {
				break
			}
		}
		a := build(agentgraph.WithConcurrency(1))
		r = must.Get(runner.New(a, store))
		for _, err := range r.Resume(context.Background(), key) {
			require.NoError(t, err)
		}
		requireClosed(t, logOf(r), "one at a time")
		result := resultsOf(t, a, r)[0]
		require.Equal(t, agentgraph.Recovered, result.Status)
		require.Equal(t, []string{"c", "d"}, result.Cancelled)
	})
}

// TestAbandonedTool: an agent behind a tool that ignores the end of its time delays
// nobody. What it says much later is dropped, while its graph still runs and after it.
// synctest checks that no goroutine waits for ever then.
func TestAbandonedTool(t *testing.T) {
	for name, rest := range map[string]time.Duration{"the graph is over": time.Minute, "the graph runs": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{}
				late := yields(t, func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
					yield(&event.Event{Data: &event.Text{Content: "I begin."}}, nil)
					time.Sleep(time.Hour)
					yield(&event.Event{Data: &event.Text{Content: "So late."}}, nil)
				})
				tool := must.Get(agenttool.New(late, agenttool.WithTimeout(time.Second)))
				slow := does(t, "slow", func(context.Context, any) (any, error) {
					time.Sleep(rest)
					return "slow", nil
				})
				b := agentgraph.NewBuilder("abandons").Node("a", gives(t, 1)).Node("asks", s.hasTool("asks", "No answer.", tool)).Node("slow", slow).
					Edge("a", "asks").Edge("a", "slow")
				require.NoError(t, s.err)
				a := must.Get(b.Build())
				result, events, err := try(t, a, "go")
				time.Sleep(5 * time.Hour)
				require.NoError(t, err)
				require.Equal(t, agentgraph.Completed, result.Status)
				require.Equal(t, `"No answer."`, string(result.Outputs["asks"]))
				for _, e := range events {
					if text, ok := e.Data.(*event.Text); ok {
						require.NotEqual(t, "So late.", text.Content)
					}
				}
				requireClosed(t, events, name) // the run of the late agent too, before the call's result
			})
		})
	}
}

// TestAdvance: an engine that makes turns durable takes a graph as one step, and can
// take it again if it does not know how the first try ended.
func TestAdvance(t *testing.T) {
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole, _, called := wholeOf(t, tree)
				s := &scene{}
				root, graph := tree(s)
				require.NoError(t, s.err)
				store := sessiontest.Memory(t)
				ctx := context.Background()
				r := must.Get(runner.New(root, store))
				_, _, err := r.Begin(ctx, key, llm.UserText("go"))
				require.NoError(t, err)
				for done, tries := false, 0; !done; tries++ {
					require.Less(t, tries, 10)
					again := must.Get(runner.New(root, store)) // every step in another process
					_, done, err = over(again.Advance(ctx, key, runner.Step{Attempt: 1}))
					require.NoError(t, err)
				}
				require.Equal(t, inJSON(whole), inJSON(resultsOf(t, graph, r)[0]))
				require.Equal(t, called, s.take())
				_, done, err := over(r.Advance(ctx, key, runner.Step{Attempt: 2}))
				require.NoError(t, err)
				require.True(t, done)
				require.Empty(t, s.take(), "it is over")
			})
		})
	}
}

// over tells of a step whether its turn is over.
func over(events []*event.Event, s runner.TurnState, err error) ([]*event.Event, bool, error) {
	return events, s.Over, err
}
