package agentgraph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
)

// build makes the agent of a graph of arbor/v1. Its references are names of agents.
func build(t testing.TB, spec string, agents map[string]agent.Agent, opts ...agentgraph.AgentOption) *agentgraph.Agent {
	t.Helper()
	file := "apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: extended, version: 1.0.0}\nspec:\n" + spec
	g, err := agentgraph.Load([]byte(strings.ReplaceAll(file, "\t", "  ")), agentgraph.WithAnyRef())
	require.NoError(t, err)
	a, err := agentgraph.New(g, func(ref string, _ map[string]any) (agent.Agent, error) {
		if a, ok := agents[ref]; ok {
			return a, nil
		}
		return nil, fmt.Errorf("%w %q", agentgraph.ErrUnknownRef, ref)
	}, opts...)
	require.NoError(t, err)
	return a
}

// hangs makes an agent whose first calls wait until they are given up.
func hangs(t testing.TB, times int, out any) agent.Agent {
	var calls atomic.Int64
	return does(t, "hangs", func(ctx context.Context, _ any) (any, error) {
		if calls.Add(1) <= int64(times) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return out, nil
	})
}

func TestNodeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := build(t, `
	entrypoint: a
	agents: [{id: a, agentRef: x, timeout: 30s}]
`, map[string]agent.Agent{"x": hangs(t, 9, nil)})
		began := time.Now()
		result, _, err := try(t, a, "go")
		require.Equal(t, 30*time.Second, time.Since(began).Round(time.Second))
		var late *agent.TimeoutError
		require.True(t, errors.As(err, &late), "%v", err)
		require.Equal(t, 30*time.Second, late.After)
		require.Equal(t, []string{"a"}, result.Failed)
		require.Equal(t, 1, result.Calls["a"])
	})
}

func TestNodeRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const spec = `
	entrypoint: a
	agents:
	  - {id: a, agentRef: x, timeout: 10s, retry: {max: 2, backoff: 20s}}
	  - {id: b, agentRef: y}
	edges: [{from: a, to: b}]
	errorHandling: {strategy: %s, maxRetries: %d}
`
		// Whatever the strategy says: the node's own rule counts.
		for strategy, most := range map[string]int{"fail-fast": 7, "continue": 7, "retry": 0} {
			a := build(t, fmt.Sprintf(spec, strategy, most), map[string]agent.Agent{"x": hangs(t, 2, "late"), "y": gives(t, "end")})
			began := time.Now()
			result, _, err := try(t, a, "go")
			require.NoError(t, err)
			require.Equal(t, agentgraph.Completed, result.Status)
			require.Equal(t, map[string]int{"a": 3, "b": 1}, result.Calls)
			require.JSONEq(t, `"late"`, string(result.Inputs["b"]))
			// Two calls of 10 s, and pauses of 20 s and of 30 s, the longest, up to half as long or as much longer.
			took := time.Since(began)
			require.True(t, took >= 45*time.Second && took <= 96*time.Second, "%v", took)
		}
		a := build(t, strings.ReplaceAll(fmt.Sprintf(spec, "retry", 5), "max: 2", "max: 0"), map[string]agent.Agent{"x": fails(t, 1, "no", "x"), "y": gives(t, "end")})
		result, _, err := try(t, a, "go")
		require.ErrorContains(t, err, "no")
		require.Equal(t, map[string]int{"a": 1, "b": 0}, result.Calls)
	})
}
