package graphdraw

import (
	"io"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
)

// BenchmarkDraw draws 2,000 nodes with two sources each and a label on every edge.
func BenchmarkDraw(b *testing.B) {
	random := rand.New(rand.NewSource(1))
	e := expressions(b, "output.intent == 'billing'")
	g := chain(2000)
	g.Edges = nil
	for i, n := range g.Nodes[1:] {
		for range 2 {
			g.Edges = append(g.Edges, agentgraph.Edge{From: g.Nodes[random.Intn(i+1)].ID, To: n.ID, Condition: e[0]})
		}
	}
	for _, f := range formats {
		b.Run(f.ending, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, f.draw(io.Discard, g))
			}
		})
	}
}
