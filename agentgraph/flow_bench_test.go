package agentgraph

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/agentarbor/arbor/event"
)

// BenchmarkFlow measures the engine alone: who is next, and with what input, without
// agents, goroutines or a log.
func BenchmarkFlow(b *testing.B) {
	for name, shape := range map[string]func(int) shape{"chain": chain, "wide": wide, "random": random} {
		for _, n := range []int{1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				s := shape(n)
				g := &Graph{Nodes: make([]Node, n), Entrypoint: "n0"}
				for i := range n {
					g.Nodes[i] = Node{ID: fmt.Sprintf("n%d", i)}
				}
				for _, e := range s.edges {
					g.Edges = append(g.Edges, Edge{From: fmt.Sprintf("n%d", e[0]), To: fmt.Sprintf("n%d", e[1])})
				}
				p := newPlan(g)
				b.ReportAllocs()
				for b.Loop() {
					f := newFlow(p, json.RawMessage(`"go"`), "run:harness_start")
					calls := 0
					for {
						batch := append([]*call(nil), f.due(math.MaxInt)...)
						if len(batch) == 0 {
							break
						}
						for _, c := range batch {
							f.started(c)
						}
						for _, c := range batch {
							calls++
							f.end(c, outcome{run: "run", reason: event.FinishReasonStop, output: json.RawMessage(`{"ok":true}`)})
						}
					}
					if calls != n {
						b.Fatal(calls)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
			})
		}
	}
}
