package agentgraph_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// build makes the agent of a graph of arbor/v1. Its references are names of agents.
func build(t testing.TB, spec string, agents map[string]agent.Agent, opts ...agentgraph.AgentOption) *agentgraph.Agent {
	t.Helper()
	file := "apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: extended, version: 1.0.0}\nspec:\n" + spec
	g := must.Get(agentgraph.Load([]byte(strings.ReplaceAll(file, "\t", "  ")), agentgraph.WithAnyRef()))
	return must.Get(agentgraph.New(g, func(ref string, _ map[string]any) (agent.Agent, error) {
		if a, ok := agents[ref]; ok {
			return a, nil
		}
		return nil, fmt.Errorf("%w %q", agentgraph.ErrUnknownRef, ref)
	}, opts...))
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
		// A bound that was set for the graph holds for nodes, and in graphs within it.
		inner := "  entrypoint: o\n  agents:\n    - id: o\n      graph:\n" + strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf(spec, "retry", 5), "\t", "  "), "\n", "\n      ")
		quick := build(t, inner, map[string]agent.Agent{"x": fails(t, 2, "no", "late"), "y": gives(t, "end")}, agentgraph.WithBackoff(time.Millisecond, time.Millisecond))
		began := time.Now()
		_, _, err := try(t, quick, "go")
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Second)

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
func notices(events []*event.Event) (codes []string) {
	for _, e := range events {
		if n, ok := e.Data.(*event.Notice); ok {
			codes = append(codes, n.Code)
		}
	}
	return codes
}

// cutAnywhere runs a graph, then again from the end of every write of its log, as after
// a crash there. The outcome is the same each time. Its agents give the same for the
// same input. It returns the uncut run.
func cutAnywhere(t *testing.T, make func() *agentgraph.Agent, input string) (agentgraph.Result, []*event.Event) {
	t.Helper()
	store, ctx := sessiontest.Memory(t), context.Background()
	a := make()
	r := must.Get(runner.New(a, store))
	said := failure(r.Run(ctx, session.ID("whole"), llm.UserText(input)))
	read := func(id string) (events []*event.Event, result agentgraph.Result) {
		events = must.All(r.History(ctx, session.ID(id)))
		results := must.Get(a.Runs(r.History(ctx, session.ID(id))))
		require.Len(t, results, 1)
		return events, results[0].Result
	}
	events, whole := read("whole")
	cuts := 0
	for i, e := range events[:len(events)-1] {
		if i == 0 || e.Time.Equal(events[i+1].Time) {
			continue
		}
		cuts++
		fork, crash := session.ID(fmt.Sprintf("fork-%d", e.Seq)), session.ID(fmt.Sprintf("crash-%d", e.Seq))
		require.NoError(t, store.Fork(ctx, session.ID("whole"), e.Seq, fork))
		lease := must.Get(sessiontest.Acquire(ctx, store, crash, session.Owner{Host: "test"}))
		require.NoError(t, sessiontest.Append(ctx, store, crash, 0, lease, events[:i+1]...))
		require.NoError(t, sessiontest.Release(ctx, store, crash, lease))
		for _, key := range []session.Key{crash, fork} {
			again := must.Get(runner.New(make(), store))
			require.Equal(t, said, failure(again.Resume(ctx, key)), key.ID)
			log, result := read(key.ID)
			require.Equal(t, whole, result, key.ID)
			var codes []string // but for those about the cut
			for _, code := range notices(log) {
				if code != event.NoticeResumed && code != event.NoticeForked {
					codes = append(codes, code)
				}
			}
			if key == crash { // in a fork, inner graphs that were cut off begin anew
				require.Equal(t, notices(events), codes, key.ID)
				require.Equal(t, deltas(events), deltas(log), key.ID)
			}
			require.Equal(t, lastState(events), lastState(log), key.ID)
		}
	}
	require.Positive(t, cuts)
	return whole, events
}

func failure(events iter.Seq2[*event.Event, error]) (message string) {
	for _, err := range events {
		if err != nil {
			message = err.Error()
		}
	}
	return message
}

// deltas are the changes of the session's state in a log.
func deltas(events []*event.Event) (all []string) {
	for _, e := range events {
		if d, ok := e.Data.(*event.State); ok {
			all = append(all, inJSON(d.Delta))
		}
	}
	return all
}

// lastState is the session's state at the end of a log.
func lastState(events []*event.Event) map[string]any {
	var f session.Fold
	for _, e := range events {
		f.Apply(e)
	}
	return f.States()
}

// adds makes an agent that adds one to a number.
func adds(t testing.TB) agent.Agent {
	return does(t, "adds", func(_ context.Context, in any) (any, error) { return in.(float64) + 1, nil })
}

func TestLoop(t *testing.T) {
	const spec = `
	entrypoint: a
	agents:
	  - {id: a, agentRef: x}
	  - id: b
	    agentRef: x
	    loop: {until: %s, max: %d}
	  - {id: c, agentRef: x}
	edges: [{from: a, to: b}, {from: b, to: c}]
`
	make := func(until string, most int) func() *agentgraph.Agent {
		return func() *agentgraph.Agent {
			return build(t, fmt.Sprintf(spec, until, most), map[string]agent.Agent{"x": adds(t)})
		}
	}
	result, events := cutAnywhere(t, make("output >= 5", 10), "1")
	require.Equal(t, agentgraph.Completed, result.Status)
	require.Equal(t, []string{"a", "b", "c"}, result.Order)
	require.Equal(t, map[string]int{"a": 1, "b": 3, "c": 1}, result.Calls)
	require.Equal(t, "2", string(result.Inputs["b"]), "what its edges gave it")
	require.Equal(t, "5", string(result.Outputs["b"]))
	require.Equal(t, "6", string(result.Terminal["c"]))
	require.Empty(t, notices(events))
	var inputs []string
	for _, e := range events {
		if s, ok := e.Data.(*event.HarnessStart); ok && e.Agent == "b" {
			inputs = append(inputs, string(s.Input))
			require.Contains(t, e.Scope, fmt.Sprintf(".%d/b", len(inputs)), "a scope for each call")
		}
	}
	require.Equal(t, []string{"2", "3", "4"}, inputs)

	result, events = cutAnywhere(t, make("output >= 50", 3), "1")
	require.Equal(t, agentgraph.Completed, result.Status)
	require.Equal(t, "5", string(result.Outputs["b"]), "the last one stands")
	require.Equal(t, 3, result.Calls["b"])
	require.Equal(t, []string{"loop_limit"}, notices(events))

	result, events = cutAnywhere(t, make("output >= 2", 1), "1")
	require.Equal(t, 1, result.Calls["b"])
	require.Empty(t, notices(events))

	result, _ = cutAnywhere(t, make("output.x.y", 5), "1")
	require.Equal(t, agentgraph.Failed, result.Status)
	require.Equal(t, "b", result.Error.Agent)
	require.Contains(t, result.Error.Message, `until of the agent b, "output.x.y"`)
	require.Equal(t, 1, result.Calls["b"])
}

func TestGraphInGraph(t *testing.T) {
	make := func() *agentgraph.Agent {
		return build(t, `
	entrypoint: a
	agents:
	  - {id: a, agentRef: x}
	  - id: b
	    loop: {until: output.n >= 10, max: 20}
	    graph:
	      entrypoint: a
	      agents:
	        - id: a
	          graph:
	            entrypoint: n
	            agents: [{id: n, agentRef: n}]
	        - {id: b, agentRef: x}
	        - {id: c, agentRef: x, loop: {until: output > 6, max: 2}}
	        - {id: n, agentRef: sums}
	      edges:
	        - {from: a, to: b}
	        - {from: a, to: c}
	        - {from: b, to: n}
	        - {from: c, to: n, transform: output + 0}
	  - {id: c, agentRef: n}
	edges: [{from: a, to: b}, {from: b, to: c}]
`, map[string]agent.Agent{"x": adds(t),
			"n": does(t, "n", func(_ context.Context, in any) (any, error) {
				if m, ok := in.(map[string]any); ok {
					in = m["n"]
				}
				return in, nil
			}),
			"sums": does(t, "sums", func(_ context.Context, in any) (any, error) {
				m := in.(map[string]any)
				return map[string]any{"n": m["b"].(float64) + m["c"].(float64)}, nil
			})})
	}
	result, events := cutAnywhere(t, make, "0")
	require.Equal(t, agentgraph.Completed, result.Status)
	// 1: 2 + 3 = 5; 5: 6 + 7 = 13.
	require.Equal(t, map[string]int{"a": 1, "b": 2, "c": 1}, result.Calls)
	require.Equal(t, "13", string(result.Terminal["c"]))
	require.Equal(t, []string{"loop_limit"}, notices(events))
	depth := 0
	for _, e := range events {
		depth = max(depth, strings.Count(e.Scope, "/"))
	}
	require.Equal(t, 1, depth, "a scope is named by the run around it")
}

func TestGraphInGraphFails(t *testing.T) {
	const spec = `
	entrypoint: a
	agents:
	  - id: a
	    retry: {max: 1, backoff: 1ms}
	    graph:
	      entrypoint: b
	      agents: [{id: b, agentRef: x}, {id: c, agentRef: y}]
	      edges: [{from: b, to: c}]
	  - {id: f, agentRef: f}
	errorHandling: {strategy: continue, fallbackAgent: f}
`
	a := build(t, spec, map[string]agent.Agent{"x": gives(t, 1), "y": fails(t, 1, "boom", 2), "f": gives(t, 3)})
	result, _, err := try(t, a, "go")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 2, "f": 0}, result.Calls, "the whole inner graph runs again")
	require.Equal(t, "2", string(result.Terminal["a"]))

	a = build(t, spec, map[string]agent.Agent{"x": gives(t, 1), "y": fails(t, 9, "boom", 2), "f": gives(t, 3)})
	result, _, err = try(t, a, "go")
	require.NoError(t, err)
	require.Equal(t, agentgraph.CompletedWithErrors, result.Status)
	require.Equal(t, &agentgraph.ResultError{Agent: "a", Message: "agent c: boom"}, result.Error)
	require.Equal(t, "3", string(result.Terminal["a"]))

	// Agents of inner nodes are given by their ids.
	a = build(t, spec, map[string]agent.Agent{"x": gives(t, 1), "f": gives(t, 3)}, agentgraph.WithAgent("a/c", gives(t, "given")))
	result, _, err = try(t, a, "go")
	require.NoError(t, err)
	require.Equal(t, `"given"`, string(result.Terminal["a"]))

	g := a.Graph()
	_, err = agentgraph.New(g, nil, agentgraph.WithAgent("f", gives(t, 1)), agentgraph.WithAgent("a/b", gives(t, 1)), agentgraph.WithAgent("a/d", gives(t, 1)))
	require.ErrorContains(t, err, `node "a": graph "a": an agent is given for the node "d"`)
	require.ErrorContains(t, err, `node "c": unknown agent "y"`)
	require.ErrorIs(t, err, agentgraph.ErrUnknownRef)
	_, err = agentgraph.New(g, nil, agentgraph.WithAgent("f", gives(t, 1)), agentgraph.WithAgent("a", gives(t, "whole")), agentgraph.WithAgent("f/b", gives(t, 1)))
	require.ErrorContains(t, err, `"f/b", which the graph does not have`)
}

// TestSameNames: a node may have the name of the graph that it is in.
func TestSameNames(t *testing.T) {
	a := build(t, `
	entrypoint: extended
	agents:
	  - id: extended
	    graph: {entrypoint: extended, agents: [{id: extended, agentRef: x}]}
`, map[string]agent.Agent{"x": gives(t, 1)})
	result, _, err := try(t, a, "go")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"extended": 1}, result.Calls)
}
