package agentgraph_test

import (
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
