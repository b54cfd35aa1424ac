package agentgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
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
	loaded, err := agentgraph.Load([]byte("apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec: {agents: [{id: a, agentRef: x}], entrypoint: a}\n"), agentgraph.WithAnyRef())
	require.NoError(t, err)
	_, err = agentgraph.New(loaded, resolve)
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
