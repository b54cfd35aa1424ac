package agentgraph_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
)

// TestNewRefusesUncheckedGraphs: a graph that a program has put together itself may have
// a circle in which a run would never end.
func TestNewRefusesUncheckedGraphs(t *testing.T) {
	resolve := func(string, map[string]any) (agent.Agent, error) { return gives(t, 1), nil }
	for _, g := range []*agentgraph.Graph{
		{},
		{Name: "g"},
		{Name: "g", Nodes: []agentgraph.Node{{ID: "a"}}, Entrypoint: "a", Edges: []agentgraph.Edge{{From: "a", To: "a"}}},
	} {
		_, err := agentgraph.New(g, resolve)
		require.ErrorContains(t, err, "it was not checked")
	}
	loaded := must.Get(agentgraph.Load([]byte("apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec: {agents: [{id: a, agentRef: x}], entrypoint: a}\n"), agentgraph.WithAnyRef()))
	_, err := agentgraph.New(loaded, resolve)
	require.NoError(t, err)
}

// TestBuilderEmptyIDs: an edge without an end, or no entrypoint, does not mean the
// first node.
func TestBuilderEmptyIDs(t *testing.T) {
	two := func() *agentgraph.Builder {
		return agentgraph.NewBuilder("g").Node("a", gives(t, 1)).Node("b", gives(t, 2)).Edge("a", "b")
	}
	for want, b := range map[string]*agentgraph.Builder{
		"spec.edges[1]: the edge a-> lacks an id":          two().Edge("a", ""),
		"spec.edges[1]: the edge ->b lacks an id":          two().Edge("", "b"),
		"spec.entrypoint: the entrypoint is empty":         two().Entrypoint(""),
		`spec.agents[2].id: the id "a" is that of another`: two().Node("a", gives(t, 3)),
	} {
		_, err := b.Build()
		require.ErrorContains(t, err, want)
	}
}

func number(v any) int64 {
	n, _ := v.(json.Number).Int64()
	return n
}

// TestNodeOptions: what files can say under arbor/v1 can be set in Go.
func TestNodeOptions(t *testing.T) {
	make := func() *agentgraph.Agent {
		inner := must.Get(agentgraph.NewBuilder("inner").Node("x", adds(t)).Node("y", adds(t)).Edge("x", "y").Build())
		a := must.Get(agentgraph.NewBuilder("options").
			State("all", agentgraph.ReduceAppend, []int{0}).State("sum", agentgraph.ReduceSum, nil).
			Node("a", inner,
				agentgraph.LoopUntil(10, func(v agentgraph.Values) (bool, error) {
					v.State["sum"] = "mine" // as all that a function sees
					return number(v.Output) >= 5, nil
				}),
				agentgraph.Write("all", func(v agentgraph.Values) (any, error) { return v.Output, nil }),
				agentgraph.Write("sum", func(v agentgraph.Values) (any, error) { return number(v.Output), nil }),
				agentgraph.Choose(func(v agentgraph.Values) ([]string, error) { return []string{"b", "c"}, nil })).
			Node("b", adds(t), agentgraph.Timeout(time.Minute)).Node("c", adds(t)).Node("d", adds(t)).
			Edge("a", "b", agentgraph.Priority(1)).
			Edge("a", "c", agentgraph.Priority(2), agentgraph.When(func(v agentgraph.Values) (bool, error) { return number(v.State["sum"]) < 3, nil })).
			Edge("a", "d").
			Build())
		return a
	}
	result, _ := cutAnywhere(t, make, "0")
	require.Equal(t, agentgraph.Completed, result.Status)
	require.Equal(t, []string{"a", "b"}, result.Order)
	require.Equal(t, 3, result.Calls["a"], "2, 4, 6")
	require.JSONEq(t, `{"all": [0, 2, 4, 6], "sum": 12}`, inJSON(result.State))
	require.Equal(t, "7", string(result.Terminal["b"]))

	g := make().Graph()
	require.Equal(t, "a function", g.Nodes[0].Next.Source())
	yes := must.Get(g.Nodes[0].Loop.Until.WithState(map[string]any{}).Test(json.Number("7"), nil))
	require.True(t, yes)

	s := begin(t, "1", func() *agentgraph.Agent {
		return must.Get(agentgraph.NewBuilder("asks").Node("a", adds(t), agentgraph.AskFirst("Now?")).Build())
	})
	require.Empty(t, s.resume(runner.Approve(s.waits()[0])))
	require.Equal(t, "2", string(s.result().Terminal["a"]))

	synctest.Test(t, func(t *testing.T) {
		a := must.Get(agentgraph.NewBuilder("again").Node("a", fails(t, 2, "no", 1), agentgraph.Retries(2, time.Hour)).Build())
		_, _, err := try(t, a, "go")
		require.NoError(t, err)
	})
}

// TestNodeOptionErrors: a function that fails or panics is an error of its node.
func TestNodeOptionErrors(t *testing.T) {
	for say, option := range map[string]agentgraph.NodeOption{
		"until of the agent a, \"a function\": no way":           agentgraph.LoopUntil(3, func(agentgraph.Values) (bool, error) { return false, errors.New("no way") }),
		"next of the agent a, \"a function\": the function pan":  agentgraph.Choose(func(agentgraph.Values) ([]string, error) { panic("lost") }),
		"next of the agent a, \"a function\": no edge leads to ": agentgraph.Choose(func(agentgraph.Values) ([]string, error) { return []string{"x"}, nil }),
		"update of k of the agent a, \"a function\": json":       agentgraph.Write("k", func(agentgraph.Values) (any, error) { return math.NaN(), nil }),
		"update of k of the agent a, \"a function\": it must be": agentgraph.Write("k", func(agentgraph.Values) (any, error) { return "words", nil }),
	} {
		a := must.Get(agentgraph.NewBuilder("g").State("k", agentgraph.ReduceSum, 1).Node("a", gives(t, 1), option).Node("b", gives(t, 2)).Edge("a", "b").Build())
		result, _, err := try(t, a, "go")
		require.ErrorContains(t, err, say)
		require.Equal(t, "a", result.Error.Agent)
	}
	none := func(agentgraph.Values) (any, error) { return nil, nil }
	_, err := agentgraph.NewBuilder("g").
		State("k", "sometimes", 1).State("k", agentgraph.ReduceSum, "x").State("a-b", agentgraph.ReduceMerge, nil).State("c", agentgraph.ReduceReplace, func() {}).
		Node("a", gives(t, 1), nil, agentgraph.Timeout(-1), agentgraph.LoopUntil(0, nil), agentgraph.Write("d", none), agentgraph.Write("k", none), agentgraph.Write("k", none)).
		Node("b", gives(t, 1), agentgraph.Retries(-1, 0), agentgraph.AskFirst("?"), agentgraph.Choose(nil)).
		Edge("a", "b", agentgraph.Priority(-1)).Edge("a", "b", agentgraph.Priority(2)).Edge("a", "b", agentgraph.Priority(2)).OnError(agentgraph.ErrorHandling{Fallback: "b"}).Build()
	for _, say := range []string{`no reducer "sometimes"`, `the key "k" twice`, `for sum must be a number`, `"a-b" of the state is not a name`, `initial value of "c"`, `node "a": an option is nil`,
		`node "a": a time or a number of retries is negative`, `node "a": a loop has from 1 to 1000 calls`, `node "a": the state has no key "d"`, `node "a": it writes to "k" twice`, `node "a": a function is nil`,
		`node "b": a time or a number of retries is negative`, `node "b": a function is nil`, `a priority is from 1 to 1000000`, `the priority 2 of an edge from "a" is that of another edge`, `"b" waits for a person`} {
		require.ErrorContains(t, err, say)
	}
}

// TestRunsShareNoState: runs of one agent at the same time have lists of their own.
func TestRunsShareNoState(t *testing.T) {
	var a *agentgraph.Agent
	own := func(v agentgraph.Values) (any, error) { return v.Input, nil }
	inside := does(t, "inside", func(_ context.Context, in any) (any, error) {
		if in == "outer" {
			result, _, err := try(t, a, `inner`)
			require.NoError(t, err)
			require.JSONEq(t, `[1, 2, 3, "inner"]`, string(result.State["k"]))
		}
		return in, nil
	})
	a = must.Get(agentgraph.NewBuilder("g").State("k", agentgraph.ReduceAppend, []int{1, 2, 3}).
		Node("a", gives(t, 1), agentgraph.Write("k", own)).Node("b", inside).Node("c", does(t, "same", func(_ context.Context, in any) (any, error) { return in, nil })).
		Edge("a", "b", agentgraph.Transform(own)).
		Edge("b", "c", agentgraph.Transform(func(v agentgraph.Values) (any, error) { return v.State["k"], nil })).Build())
	result, _, err := try(t, a, `outer`)
	require.NoError(t, err)
	require.JSONEq(t, `[1, 2, 3, "outer"]`, string(result.Terminal["c"]))
}
