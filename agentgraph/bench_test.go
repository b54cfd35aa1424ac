package agentgraph

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// shape is the edges of a graph of n nodes.
type shape struct {
	n     int
	edges [][2]int
}

func chain(n int) shape {
	s := shape{n: n}
	for i := 1; i < n; i++ {
		s.edges = append(s.edges, [2]int{i - 1, i})
	}
	return s
}

func wide(n int) shape {
	s := shape{n: n}
	for i := 1; i < n; i++ {
		s.edges = append(s.edges, [2]int{0, i})
	}
	return s
}

// random is a graph whose nodes have up to three sources before them.
func random(n int) shape {
	s, r := shape{n: n}, rand.New(rand.NewPCG(1, 2))
	for i := 1; i < n; i++ {
		for range 1 + r.IntN(3) {
			s.edges = append(s.edges, [2]int{r.IntN(i), i})
		}
	}
	return s
}

func graphFile(s shape) string {
	var b strings.Builder
	b.WriteString("apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata:\n  name: g\n  version: 1.0.0\nspec:\n  agents:\n")
	for i := range s.n {
		fmt.Fprintf(&b, "    - id: n%d\n      agentRef: worker\n", i)
	}
	b.WriteString("  edges:\n")
	for i, e := range s.edges {
		fmt.Fprintf(&b, "    - from: n%d\n      to: n%d\n", e[0], e[1])
		if i%2 == 0 { // each one is another text, and is compiled
			fmt.Fprintf(&b, "      condition: output.score > %d\n", i)
		}
	}
	b.WriteString("  entrypoint: n0\n")
	return b.String()
}

// BenchmarkLoad reads, checks and compiles. Half of the edges have a condition, and
// all conditions differ.
func BenchmarkLoad(b *testing.B) {
	for _, s := range []struct {
		name string
		make func(n int) shape
	}{{"chain", chain}, {"wide", wide}, {"random", random}} {
		for _, n := range []int{100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				data := []byte(graphFile(s.make(n)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Load(data, WithRefs("worker")); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
			})
		}
	}
}
