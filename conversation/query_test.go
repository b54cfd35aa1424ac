package conversation

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

func subagent(t *testing.T) *Graph {
	g := New()
	for _, line := range lines(t, "03-subagent") {
		g = must.Get(g.ReduceJSON(line))
	}
	return g
}

func ids(nodes []Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.ID)
	}
	return all
}

func TestQueries(t *testing.T) {
	g := subagent(t)
	require.Equal(t, 13, g.Len())
	require.Equal(t, []string{"a2:harness_start", "tc-1:result"}, ids(g.Children("tc-1")))
	require.Equal(t, []string{"tc-1"}, ids(g.Parents("a2:harness_start")))
	require.Equal(t, []string{"tc-1"}, ids(g.Parents("tc-1:result")))
	require.Equal(t, []string{"u", "a1", "a2"}, slices.Collect(g.Runs()))
	require.Equal(t, []string{"a2:harness_start", "c1", "tc-2", "tc-2:result", "c2", "a2:harness_end"}, ids(g.Run("a2")))
	require.Equal(t, "Searching...Found results", g.Text("a2"))
	require.Equal(t, "I'll search...Based on the search...", g.Text("a1"))
	require.Equal(t, []string{"tc-1"}, ids(g.ToolCalls("a1")))
	require.Equal(t, []string{"tc-2", "c1", "a2:harness_start", "tc-1", "p1", "a1:harness_start", "u:user"}, ids(g.PathToRoot("tc-2")))
	require.Equal(t, []string{"c2", "a2:harness_end"}, ids(slices.Collect(g.Walk("c2"))))
	want := []string{"tc-1", "a2:harness_start", "c1", "tc-2", "tc-2:result", "c2", "a2:harness_end", "tc-1:result", "p2", "a1:harness_end"}
	require.Equal(t, want, ids(slices.Collect(g.Walk("tc-1"))))
	require.Equal(t, append([]string{"u:user", "a1:harness_start", "p1"}, want...), ids(slices.Collect(g.Topological())))
	n, ok := g.Node("tc-2")
	require.True(t, ok)
	require.Equal(t, event.TypeToolCall, n.Kind)
	require.Equal(t, "a2", n.RunID)
}

func TestQueriesOfWhatIsNotThere(t *testing.T) {
	for _, g := range []*Graph{New(), {}, subagent(t)} {
		_, ok := g.Node("nothing")
		require.False(t, ok)
		require.Empty(t, g.Children("nothing"))
		require.Empty(t, g.Parents("nothing"))
		require.Empty(t, g.Parents("u:user"))
		require.Empty(t, g.Run("nothing"))
		require.Empty(t, g.ToolCalls("nothing"))
		require.Empty(t, g.PathToRoot("nothing"))
		require.Empty(t, g.Text("nothing"))
		require.Empty(t, slices.Collect(g.Walk("nothing")))
		_, ok = g.Last("nothing")
		require.False(t, ok)
	}
	require.Zero(t, New().Len())
	require.Empty(t, Active{}.Tip(New()))
	require.Empty(t, Thread(New(), Active{}, ThreadOptions{}))
	require.Empty(t, Messages(New(), Active{}))
	require.Empty(t, DAG(New(), Active{}).Nodes)
	var none Node
	require.Nil(t, none.Data())
	require.Empty(t, none.Text()+none.State())
}

// TestBreak: whoever breaks out of a walk ends it.
func TestBreak(t *testing.T) {
	g := subagent(t)
	visited := 0
	for range g.Topological() {
		visited++
		break
	}
	for range g.Nodes() {
		visited++
		break
	}
	for range g.Walk("tc-1") {
		visited++
		break
	}
	for range g.Runs() {
		visited++
		break
	}
	require.Equal(t, 4, visited)
}

// TestOutOfOrder: in the order of first sight a child can come before its parent;
// in a topological walk it cannot.
func TestOutOfOrder(t *testing.T) {
	g := fold(t, `{"type":"text","id":"child","runId":"s","parentId":"parent"}`, `{"type":"text","id":"parent","runId":"r"}`)
	require.Equal(t, []string{"child", "parent"}, ids(slices.Collect(g.Nodes())))
	require.Equal(t, []string{"parent", "child"}, ids(slices.Collect(g.Topological())))
}
