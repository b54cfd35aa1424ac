package agentgraph_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
)

// TestMergeIsItsOwn: a mapping that grows by merges is not shared with another run, or
// with an event that had it before.
func TestMergeIsItsOwn(t *testing.T) {
	a := build(t, `
	entrypoint: a
	state: {m: {reducer: merge, initial: {deep: {zero: 0}}}, bad: {reducer: sum}}
	agents:
	  - {id: a, agentRef: x, update: {m: '{"deep": {"one": 1}}'}}
	  - {id: b, agentRef: x, update: {m: '{"deep": {"two": 2}}'}}
	  - {id: c, agentRef: x, update: {m: '{"deep": {"three": 3}}'}}
	  - {id: d, agentRef: x, update: {m: '{"deep": {"never": 4}}', bad: '"no number"'}}
	edges: [{from: a, to: b}, {from: a, to: c}, {from: b, to: d}]
	errorHandling: {strategy: continue}
`, map[string]agent.Agent{"x": gives(t, 1)}, agentgraph.WithSettle(time.Minute))
	for range 2 {
		result, events, err := try(t, a, "go")
		require.NoError(t, err)
		require.JSONEq(t, `{"deep":{"zero":0,"one":1,"two":2,"three":3}}`, string(result.State["m"]), "of an update with an error nothing is written")
		var deltas []string
		for _, e := range events {
			if d, ok := e.Data.(*event.State); ok {
				deltas = append(deltas, raw(t, d.Delta))
			}
		}
		require.Len(t, deltas, 4)
		require.Contains(t, deltas[0], `{"deep":{"zero":0}}`)
		require.Contains(t, deltas[1], `{"deep":{"one":1,"zero":0}}`)
		require.Contains(t, deltas[2], `{"deep":{"one":1,"two":2,"zero":0}}`, "b and c end together")
		require.Contains(t, deltas[3], `{"deep":{"one":1,"three":3,"two":2,"zero":0}}`)
	}
}

func raw(t testing.TB, state map[string]any) string {
	t.Helper()
	return string(event.EncodeJSON(state))
}

func TestState(t *testing.T) {
	make := func() *agentgraph.Agent {
		return build(t, `
	entrypoint: a
	state:
	  notes: {reducer: append, initial: [zero]}
	  total: {reducer: sum}
	  least: {reducer: min, initial: 100}
	  most: {reducer: max}
	  last:
	  about: {reducer: merge, initial: {who: {a: 1}, keep: true}}
	  unused: {initial: 7}
	agents:
	  - id: a
	    agentRef: x
	    loop: {until: state.total >= 6, max: 9}
	    update:
	      notes: '"call " + string(output)'
	      total: output
	      least: output
	      most: output
	      last: '{"now": output, "before": state.last?.now}'
	      about: '{"who": {"b": output}, "more": [state.total]}'
	  - {id: b, agentRef: x, update: {notes: '["b1", ["b2"]]', total: nil}}
	  - {id: c, agentRef: echo}
	  - {id: d, agentRef: echo, next: 'state.total > 5 ? "e" : []'}
	  - {id: e, agentRef: echo}
	edges:
	  - {from: a, to: b, condition: len(state.notes) == 4}
	  - {from: a, to: c, condition: len(state.notes) > 4}
	  - {from: b, to: d, transform: state}
	  - {from: d, to: e}
`, map[string]agent.Agent{"x": adds(t), "echo": does(t, "echo", func(_ context.Context, in any) (any, error) { return in, nil })})
	}
	result, events := cutAnywhere(t, make, "0")
	require.Equal(t, agentgraph.Completed, result.Status)
	require.Equal(t, []string{"a", "b", "d", "e"}, result.Order)
	require.Equal(t, 3, result.Calls["a"], "1 + 2 + 3")
	want := `{"about":{"keep":true,"more":[3],"who":{"a":1,"b":3}},"last":{"before":2,"now":3},"least":1,"most":3,"notes":["zero","call 1","call 2","call 3","b1",["b2"]],"total":6,"unused":7}`
	require.JSONEq(t, want, string(result.Inputs["d"]), "a transform sees all of it")
	require.JSONEq(t, want, string(event.EncodeJSON(result.State)))

	// The log has it too, in the state of the session, until the turn ends.
	published := map[string]any{}
	for k, v := range lastState(events) {
		published[strings.TrimPrefix(k, "turn:extended.")] = v
	}
	require.JSONEq(t, want, raw(t, published))
	written := deltas(events)
	require.Len(t, written, 5, "the beginning, and one for each call with writes")
	require.JSONEq(t, `{"turn:extended.notes": ["zero", "call 1", "call 2", "call 3", "b1", ["b2"]], "turn:extended.total": 6}`, written[4])
}

func TestStateErrors(t *testing.T) {
	for name, c := range map[string]struct{ key, update, say string }{
		"sum of a text":    {"reducer: sum", "output.text", `update of k of the agent a, "output.text": it must be a number for sum`},
		"sum too large":    {"reducer: sum, initial: 9223372036854775807", "1", "too large"},
		"max of a mapping": {"reducer: max, initial: 1", "output", "it must be a number for max"},
		"merge of a text":  {"reducer: merge", "output.text", "only a mapping"},
		"broken":           {"reducer: replace", "output.no.no", "cannot fetch no from nil"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := func(strategy string) *agentgraph.Agent {
				return build(t, fmt.Sprintf(`
	entrypoint: a
	state: {k: {%s}, other: {reducer: sum, initial: 1}}
	agents:
	  - {id: a, agentRef: a, update: {other: "1", k: '%s'}}
	  - {id: b, agentRef: b, update: {other: "5"}}
	edges: [{from: a, to: b}]
	errorHandling: {strategy: %s}
`, c.key, c.update, strategy), map[string]agent.Agent{"a": gives(t, map[string]any{"text": "x"}), "b": gives(t, 2)})
			}
			result, _, err := try(t, spec("fail-fast"), "go")
			require.ErrorContains(t, err, c.say)
			require.Equal(t, agentgraph.Failed, result.Status)
			require.Equal(t, []string{"b"}, result.NotRun)
			require.Equal(t, "1", string(result.State["other"]), "all writes of a node, or none")

			result, events, err := try(t, spec("continue"), "go")
			require.NoError(t, err)
			require.Equal(t, agentgraph.CompletedWithErrors, result.Status)
			require.Equal(t, "a", result.Error.Agent)
			require.Equal(t, []string{"a", "b"}, result.Order, "it has an output, and its edges are taken")
			require.Equal(t, "6", string(result.State["other"]))
			require.Equal(t, []string{"routing_error"}, notices(events))
		})
	}
}

// TestStateOfInnerGraphs: each run of a graph has a state of its own.
func TestStateOfInnerGraphs(t *testing.T) {
	make := func() *agentgraph.Agent {
		return build(t, `
	entrypoint: a
	state: {n: {reducer: sum, initial: 10}}
	agents:
	  - id: a
	    loop: {until: state.n > 12, max: 9}
	    update: {n: "1"}
	    graph:
	      entrypoint: x
	      state: {n: {reducer: append}}
	      agents: [{id: x, agentRef: x, update: {n: output}}, {id: y, agentRef: y, update: {n: output}}]
	      edges: [{from: x, to: y, transform: len(state.n)}]
`, map[string]agent.Agent{"x": gives(t, 1), "y": adds(t)})
	}
	result, _ := cutAnywhere(t, make, "0")
	require.Equal(t, "13", string(result.State["n"]))
	require.Equal(t, 3, result.Calls["a"])
	require.Equal(t, "2", string(result.Terminal["a"]))
}

// TestLargeState: what grows beyond a bound is not written to the log on each change.
func TestLargeState(t *testing.T) {
	a := build(t, `
	entrypoint: a
	state: {all: {reducer: append}}
	agents:
	  - {id: a, agentRef: x, loop: {until: len(state.all) == 40, max: 100}, update: {all: output}}
`, map[string]agent.Agent{"x": gives(t, strings.Repeat("x", 1000))})
	result, events, err := try(t, a, "go")
	require.NoError(t, err)
	require.Greater(t, len(result.State["all"]), 40_000)
	size, states := 0, 0
	for _, e := range events {
		if s, ok := e.Data.(*event.State); ok {
			size += len(event.EncodeJSON(s))
			states++
		}
	}
	require.Less(t, size, 5*5*1000)
	require.Equal(t, 5, states, "4 values, and that there is none any more")
	require.NotContains(t, lastState(events), "turn:extended.all")
}
