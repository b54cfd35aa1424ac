package graphs

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEngines runs every shape on every engine, twice on what was compiled once,
// and looks at what happened: each node was called once a run, with the values of its
// sources and of nobody else, and the last one's value came out.
func TestEngines(t *testing.T) {
	for _, e := range Engines() {
		t.Run(e.Name, func(t *testing.T) {
			for _, name := range Shapes() {
				t.Run(name, func(t *testing.T) {
					s, err := NewShape(name, 150) // more than tRPC's limit of steps
					require.NoError(t, err)
					w := &Work{Shape: s}
					g, err := e.build(w)
					require.NoError(t, err)
					require.NoError(t, g.Reset())
					for range 2 {
						w.inputs = make(map[string]any)
						output, err := g.Run(t.Context(), "hello")
						require.NoError(t, err)
						require.Equal(t, s.Last().Value, output)
						require.Equal(t, len(s.Nodes), w.Calls())
						for i := range s.Nodes {
							n := &s.Nodes[i]
							require.Equal(t, wanted(s, n), values(t, s, n, w.inputs[n.ID]), n.ID)
						}
						events, err := g.Events(t.Context())
						require.NoError(t, err)
						t.Logf("%d events kept of a run of %d nodes", events, len(s.Nodes))
						if !e.Stored {
							require.Less(t, events, 5, "no events of nodes are stored")
						}
					}
					require.NoError(t, g.Reset())
				})
			}
		})
	}
}

// wanted are the values that a node should get, by the ids of its sources; the run's
// input is the first node's.
func wanted(s *Shape, n *Node) map[string]string {
	want := make(map[string]string)
	for _, from := range n.Sources {
		want[s.Nodes[from].ID] = s.Nodes[from].Value
	}
	if len(n.Sources) == 0 {
		want[""] = "hello"
	}
	return want
}

// values makes the same of what an engine gave a node: a value by itself, or a map by
// the ids of the sources, or either of them as JSON.
func values(t *testing.T, s *Shape, n *Node, input any) map[string]string {
	if raw, ok := input.(json.RawMessage); ok {
		require.NoError(t, json.Unmarshal(raw, &input), "%s", raw)
	}
	got := make(map[string]string)
	switch v := input.(type) {
	case string:
		if len(n.Sources) == 0 {
			got[""] = v
		} else {
			got[s.Nodes[n.Sources[0]].ID] = v
		}
	case map[string]any:
		for from, value := range v {
			got[from] = value.(string)
		}
	default:
		require.Fail(t, "neither a text nor a map", "%T", input)
	}
	return got
}

// TestShapes looks at what a shape promises.
func TestShapes(t *testing.T) {
	for _, name := range Shapes() {
		for _, nodes := range []int{4, 5, 6, 7, 10, 99, 100, 1000, 10_000} {
			t.Run(fmt.Sprintf("%s of %d", name, nodes), func(t *testing.T) {
				s, err := NewShape(name, nodes)
				require.NoError(t, err)
				require.Len(t, s.Nodes, nodes)
				edges := 0
				targets := make([]int, nodes)
				ids, given := make(map[string]bool), make(map[string]bool)
				for i, n := range s.Nodes {
					ids[n.ID], given[n.Value] = true, true
					require.Equal(t, i == 0, len(n.Sources) == 0)
					seen := make(map[int]bool)
					for _, from := range n.Sources {
						require.Less(t, from, i, "no circles")
						seen[from] = true
						targets[from]++
						edges++
					}
					require.Len(t, seen, len(n.Sources), "no edge twice")
					if name == ShapeRandom && i > 1 {
						require.Len(t, n.Sources, 2)
					}
				}
				require.Len(t, ids, nodes)
				require.Len(t, given, nodes)
				require.Equal(t, edges, s.Edges)
				for i := range targets {
					require.Equal(t, i == nodes-1, targets[i] == 0, "node %d", i)
				}
				again, err := NewShape(name, nodes)
				require.NoError(t, err)
				require.Equal(t, s, again)
			})
		}
	}
	_, err := NewShape("star", 10)
	require.Error(t, err)
	_, err = NewShape(ShapeChain, 3)
	require.Error(t, err)
}
