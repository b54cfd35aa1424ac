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

// routes is a graph whose node a decides where to go.
const routes = `
	entrypoint: a
	agents:
	  - {id: a, agentRef: a%s}
	  - {id: b, agentRef: b}
	  - {id: c, agentRef: c}
	  - {id: d, agentRef: d}
	edges:
	  - {from: a, to: b%s}
	  - {from: a, to: c%s}
	  - {from: a, to: d%s}
	errorHandling: {strategy: %s}
`

func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		next   string
		output any
		order  []string
		status agentgraph.Status
		say    string // of the error
		strict agentgraph.Status
	}{
		"one":          {"output.to", map[string]any{"to": "c"}, []string{"a", "c"}, agentgraph.Completed, "", ""},
		"several":      {"output", []any{"d", "b"}, []string{"a", "b", "d"}, agentgraph.Completed, "", ""},
		"none":         {"output.to", map[string]any{}, []string{"a"}, agentgraph.Completed, "", ""},
		"empty":        {"output", []any{}, []string{"a"}, agentgraph.Completed, "", ""},
		"constant":     {`"c"`, "x", []string{"a", "c"}, agentgraph.Completed, "", ""},
		"of the input": {`input.way`, "x", []string{"a", "d"}, agentgraph.Completed, "", ""},
		"condition":    {"output.to", map[string]any{"to": []any{"b", "c"}}, []string{"a", "c"}, agentgraph.Completed, "", ""},
		"unknown":      {"output.to", map[string]any{"to": "nobody"}, []string{"a"}, agentgraph.CompletedWithErrors, `next of the agent a, "output.to": no edge leads to "nobody"`, agentgraph.Failed},
		"itself":       {"output.to", map[string]any{"to": "a"}, []string{"a"}, agentgraph.CompletedWithErrors, `no edge leads to "a"`, agentgraph.Failed},
		"number":       {"output.to", map[string]any{"to": 7}, []string{"a"}, agentgraph.CompletedWithErrors, "a text or a list of texts is needed", agentgraph.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range []string{"continue", "fail-fast"} {
				agents := map[string]agent.Agent{"a": gives(t, c.output), "b": gives(t, "b"), "c": gives(t, "c"), "d": gives(t, "d")}
				a := build(t, fmt.Sprintf(routes, `, next: '`+c.next+`'`, `, condition: 'input.skip != "b"'`, "", "", strategy), agents)
				input := `{"way": "d"}`
				if name == "condition" {
					input = `{"skip": "b"}`
				}
				result, events, err := try(t, a, input)
				require.Equal(t, c.order, result.Order)
				if c.say == "" {
					require.NoError(t, err)
					require.Equal(t, c.status, result.Status)
					continue
				}
				require.Equal(t, "a", result.Error.Agent)
				require.Contains(t, result.Error.Message, c.say)
				if strategy == "continue" {
					require.NoError(t, err)
					require.Equal(t, c.status, result.Status)
					require.Equal(t, []string{"routing_error"}, notices(events))
				} else {
					require.ErrorContains(t, err, c.say)
					require.Equal(t, c.strict, result.Status)
				}
			}
		})
	}
}

// notices returns the codes of the notices in a log.
func notices(events []*agent.Event) (codes []string) {
	for _, e := range events {
		if n, ok := e.Data.(*agent.Notice); ok {
			codes = append(codes, n.Code)
		}
	}
	return codes
}

func TestPriority(t *testing.T) {
	for name, c := range map[string]struct {
		b, c, d string
		order   []string
		say     string
	}{
		"the largest":              {", priority: 1", ", priority: 3", ", priority: 2", []string{"a", "c"}, ""},
		"the largest that holds":   {", priority: 1", ", priority: 3, condition: output.no", ", priority: 2", []string{"a", "d"}, ""},
		"none holds":               {", priority: 1, condition: output.no", ", priority: 3, condition: output.no", ", priority: 2, condition: output.no", []string{"a"}, ""},
		"beside one without":       {"", ", priority: 3", ", priority: 2", []string{"a", "b", "c"}, ""},
		"not evaluated behind":     {", priority: 1, condition: output.no.no", ", priority: 3", ", priority: 2, condition: output.no < 1", []string{"a", "c"}, ""},
		"error before":             {", priority: 1", ", priority: 3, condition: output.no < 1", ", priority: 2", []string{"a", "d"}, "a->c"},
		"error of the one's value": {", priority: 1", ", priority: 3, transform: output.no.no", ", priority: 2", []string{"a"}, "a->c"},
	} {
		t.Run(name, func(t *testing.T) {
			agents := map[string]agent.Agent{"a": gives(t, map[string]any{"yes": true}), "b": gives(t, "b"), "c": gives(t, "c"), "d": gives(t, "d")}
			result, _, err := try(t, build(t, fmt.Sprintf(routes, "", c.b, c.c, c.d, "continue"), agents), "go")
			require.NoError(t, err)
			require.Equal(t, c.order, result.Order)
			if c.say != "" {
				require.Equal(t, c.say, result.Error.Edge)
				_, _, err = try(t, build(t, fmt.Sprintf(routes, "", c.b, c.c, c.d, "fail-fast"), agents), "go")
				require.ErrorContains(t, err, c.say)
			}
		})
	}
	// next comes first.
	agents := map[string]agent.Agent{"a": gives(t, "x"), "b": gives(t, "b"), "c": gives(t, "c"), "d": gives(t, "d")}
	result, _, err := try(t, build(t, fmt.Sprintf(routes, `, next: '["b", "d"]'`, ", priority: 1", ", priority: 3", ", priority: 2", "fail-fast"), agents), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "d"}, result.Order)
	require.Equal(t, []string{"b", "c"}, result.Skipped)
}
