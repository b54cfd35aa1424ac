package conversation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireDrawn checks that boxes do not meet, that edges lead down, and that
// every edge has its boxes.
func requireDrawn(t require.TestingT, l Layout) {
	at := map[string]Box{}
	cells := map[[2]int]string{}
	for _, b := range l.Nodes {
		_, twice := at[b.ID]
		require.False(t, twice, b.ID)
		at[b.ID] = b
		require.Positive(t, b.Width)
		require.Positive(t, b.Height)
		// Boxes are of one size, so that they meet only within neighbouring cells.
		cell := [2]int{b.X / b.Width, b.Y / b.Height}
		for dx := -1; dx <= 1; dx++ {
			for dy := -1; dy <= 1; dy++ {
				o, ok := at[cells[[2]int{cell[0] + dx, cell[1] + dy}]]
				apart := b.X+b.Width <= o.X || o.X+o.Width <= b.X || b.Y+b.Height <= o.Y || o.Y+o.Height <= b.Y
				require.True(t, !ok || apart, "%v and %v overlap", b, o)
			}
		}
		cells[cell] = b.ID
	}
	for _, e := range l.Edges {
		from, ok := at[e.From]
		require.True(t, ok)
		to, ok := at[e.To]
		require.True(t, ok)
		require.Less(t, from.Y, to.Y)
	}
}

// TestDAGDoesNotOverlap draws random graphs and compares with the edges of the
// graph, where nothing is hidden.
func TestDAGDoesNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New()
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			var err error
			g, err = g.ReduceJSON([]byte(anyEvent(t)))
			require.NoError(t, err)
		}
		l := DAG(g, Active{})
		requireDrawn(t, l)
		require.Equal(t, l, DAG(g, Active{}))
		for _, e := range l.Edges {
			require.Equal(t, e.From, g.Parents(e.To)[0].ID)
		}
		for n := range g.Nodes() {
			a, err := Active{}.Switch(g, n.ID)
			require.NoError(t, err)
			requireDrawn(t, DAG(g, a))
			a, err = a.Collapse(g, n.ID)
			require.NoError(t, err)
			requireDrawn(t, DAG(g, a))
			a, err = a.Summarize(g, n.ID, "short")
			require.NoError(t, err)
			requireDrawn(t, DAG(g, a))
		}
	})
}

func TestDAGOfACase(t *testing.T) {
	g := New()
	for _, line := range lines(t, "03-subagent") {
		var err error
		g, err = g.ReduceJSON(line)
		require.NoError(t, err)
	}
	l := DAG(g, Active{})
	requireDrawn(t, l)
	require.Len(t, l.Nodes, g.Len())
	require.Len(t, l.Edges, g.Len()-1)
	boxes := map[string]Box{}
	for _, b := range l.Nodes {
		boxes[b.ID] = b
	}
	require.Equal(t, boxes["tc-1"].X, boxes["tc-1:result"].X, "a run stays in its column")
	require.Greater(t, boxes["a2:harness_start"].X, boxes["tc-1"].X, "a sub-agent stands beside it")
	require.Equal(t, boxes["a2:harness_start"].Y, boxes["tc-1:result"].Y, "as many steps from the root, as far down")
	require.Equal(t, "I'll search...", boxes["p1"].Label)
}

// large makes a graph of at least n nodes: runs of ten, each of which hangs on an
// earlier one, as a part of it or behind it.
func large(n int) *Graph {
	g := New()
	for i := 0; g.Len() < n; i++ {
		parent := ""
		if i > 0 {
			parent = fmt.Sprintf("run%d:%s", i*7/10, []string{"harness_start", "harness_end"}[i%2])
		}
		events := []string{fmt.Sprintf(`{"type":"harness_start","runId":"run%d","parentId":%q,"agentId":"x"}`, i, parent)}
		for j := range 8 {
			events = append(events, text(fmt.Sprintf("run%d", i), fmt.Sprintf("t%d-%d", i, j), strings.Repeat("word ", 10)))
		}
		events = append(events, fmt.Sprintf(`{"type":"harness_end","runId":"run%d","agentId":"x"}`, i))
		for _, e := range events {
			g, _ = g.ReduceJSON([]byte(e))
		}
	}
	return g
}

func TestDAGOfFiveThousandNodes(t *testing.T) {
	chain := New()
	for i := range 5000 {
		chain, _ = chain.ReduceJSON([]byte(text("r", fmt.Sprint(i), "x")))
	}
	wide := New()
	wide, _ = wide.ReduceJSON([]byte(start))
	for i := range 5000 {
		wide, _ = wide.ReduceJSON([]byte(fmt.Sprintf(`{"type":"harness_start","runId":"%d","parentId":"r:harness_start"}`, i)))
	}
	deep := New()
	for i := range 5000 {
		deep, _ = deep.ReduceJSON([]byte(fmt.Sprintf(`{"type":"tool_call","id":"%d","runId":"run%d","parentId":"%d"}`, i, i, i-1)))
	}
	for name, g := range map[string]*Graph{"mixed": large(10_000), "chain": chain, "wide": wide, "deep": deep} {
		begin := time.Now()
		l := DAG(g, Active{})
		require.Less(t, time.Since(begin), 2*time.Second, "%s: a few milliseconds are usual", name)
		if name == "mixed" {
			require.Greater(t, len(l.Nodes), 2000, "one branch of several")
		} else {
			require.Len(t, l.Nodes, g.Len(), name)
		}
		requireDrawn(t, l)
		require.Equal(t, l, DAG(g, Active{}))
	}
}

func TestLabel(t *testing.T) {
	require.Equal(t, "a b", line(" a\n\tb\x00 "))
	require.Equal(t, strings.Repeat("é", 27)+"…", line(strings.Repeat("é", 500)))
	require.Empty(t, line(""))
}

func TestHypergraph(t *testing.T) {
	g := New()
	for _, l := range lines(t, "01-seed-list-files") {
		var err error
		g, err = g.ReduceJSON(l)
		require.NoError(t, err)
	}
	h := g.Hypergraph()
	require.Len(t, h.Chunks, 10)
	require.Equal(t, []string{"block:user-1:user", "block:agent-1:harness_start", "block:text-1", "block:tc-1", "usage:agent-1", "block:relay-1",
		"block:tc-1:result", "block:text-2", "block:agent-1:harness_end"}, h.Blocks)
	require.Equal(t, []string{"message:user-1", "message:agent-1"}, h.Messages)
	require.Contains(t, h.Edges, Hyperedge{ChunkToBlock, []string{"agent-1:usage:1", "agent-1:usage:2"}, "usage:agent-1"})
	require.Contains(t, h.Edges, Hyperedge{BlockToMessage, []string{"block:user-1:user"}, "message:user-1"})
	require.Contains(t, h.Edges, Hyperedge{ParentMessage, []string{"message:agent-1"}, "message:user-1"})
}

// TestHypergraphGrows: every chunk is in one block and every block in one
// message; what was joined stays joined while the graph grows.
func TestHypergraphGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New()
		var before Hypergraph
		for _, line := range slices.Concat(conversationEvents(t, rapid.Bool().Draw(t, "stored"))...) {
			var err error
			g, err = g.ReduceJSON([]byte(line))
			require.NoError(t, err)
			h := g.Hypergraph()
			require.Subset(t, h.Chunks, before.Chunks)
			require.Subset(t, h.Blocks, before.Blocks)
			require.Subset(t, h.Messages, before.Messages)
			in := map[HyperedgeKind]map[string]string{ChunkToBlock: {}, BlockToMessage: {}, ParentMessage: {}}
			for _, e := range h.Edges {
				for _, part := range e.From {
					require.NotContains(t, in[e.Kind], part)
					in[e.Kind][part] = e.To
				}
			}
			require.Len(t, in[ChunkToBlock], g.Len())
			require.Len(t, in[BlockToMessage], len(h.Blocks))
			for _, e := range before.Edges {
				for _, part := range e.From {
					require.Equal(t, e.To, in[e.Kind][part])
				}
			}
			before = h
		}
	})
}
