package agentgraph_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// shapes are the graphs that costs are measured on.
var shapes = map[string]func(b *agentgraph.Builder, n int){
	"chain": func(b *agentgraph.Builder, n int) {
		for i := 1; i < n; i++ {
			b.Edge(id(i-1), id(i))
		}
	},
	"wide": func(b *agentgraph.Builder, n int) {
		for i := 1; i < n-1; i++ {
			b.Edge(id(0), id(i)).Edge(id(i), id(n-1))
		}
	},
	"random": func(b *agentgraph.Builder, n int) {
		dice := rand.New(rand.NewPCG(1, 2))
		for i := 1; i < n; i++ {
			from := dice.IntN(i)
			b.Edge(id(from), id(i))
			if other := dice.IntN(i); other != from {
				b.Edge(id(other), id(i))
			}
		}
	},
}

func id(i int) string { return fmt.Sprintf("n%d", i) }

// quick is an agent whose own work costs next to nothing.
func quick(t testing.TB) agent.Agent {
	done := &event.Event{Data: &event.Finish{Output: []byte(`{"ok":true}`)}}
	return must.Get(agent.New("quick", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) { yield(done, nil) }
	}))
}

func shaped(t testing.TB, shape string, n int) *agentgraph.Agent {
	b := agentgraph.NewBuilder(shape)
	for i := range n {
		b.Node(id(i), quick(t))
	}
	shapes[shape](b, n)
	return must.Get(b.Build())
}

// BenchmarkRun measures what a node costs besides its own work, in a session in memory
// that keeps all events.
func BenchmarkRun(b *testing.B) {
	for _, shape := range []string{"chain", "wide", "random"} {
		for _, n := range []int{100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", shape, n), func(b *testing.B) {
				a := shaped(b, shape, n)
				store := session.NewMemory()
				r := must.Get(runner.New(a, store))
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					key := session.ID(fmt.Sprint("s", k))
					for _, err := range r.Run(context.Background(), key, llm.UserText("go")) {
						if err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					require.NoError(b, store.Delete(context.Background(), key))
					b.StartTimer()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
			})
		}
	}
}
