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
	"github.com/agentarbor/arbor/internal/must"
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
	a, err := agentgraph.NewBuilder("small").Node("a", gives(t, 1)).Node("b", gives(t, 2)).Edge("a", "b").Build()
	require.NoError(t, err)
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
		r, err := runner.New(build(), store)
		require.NoError(t, err)
		for e, err := range r.Run(context.Background(), key, llm.UserText("go")) {
			require.NoError(t, err)
			if e.Agent == "d" {
				break
			}
		}
		a := build(agentgraph.WithConcurrency(1))
		r, err = runner.New(a, store)
		require.NoError(t, err)
		for _, err := range r.Resume(context.Background(), key) {
			require.NoError(t, err)
		}
		requireClosed(t, logOf(t, r), "one at a time")
		result := resultsOf(t, a, r)[0]
		require.Equal(t, agentgraph.Recovered, result.Status)
		require.Equal(t, []string{"c", "d"}, result.Cancelled)
	})
}
