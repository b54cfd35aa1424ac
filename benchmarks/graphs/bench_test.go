package graphs

import (
	"context"
	"fmt"
	"testing"

	"github.com/agentarbor/arbor/benchmarks/internal/cputime"
)

// perGraph runs a benchmark on every graph with every engine.
func perGraph(b *testing.B, run func(*testing.B, Engine, *Work)) {
	for _, nodes := range Sizes() {
		for _, name := range Shapes() {
			shape, err := NewShape(name, nodes)
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range Engines() {
				b.Run(fmt.Sprintf("framework=%s/%s=%d", e.Name, name, nodes), func(b *testing.B) { run(b, e, &Work{Shape: shape}) })
			}
		}
	}
}

// measure repeats a function and reports the time of all processors, too.
func measure(b *testing.B, do func() error) {
	b.ReportAllocs()
	n, used := 0, cputime.Used()
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(cputime.Used()-used)/float64(n), "cpu-ns/op")
}

// BenchmarkBuild builds and compiles a graph.
func BenchmarkBuild(b *testing.B) {
	perGraph(b, func(b *testing.B, e Engine, w *Work) {
		measure(b, func() error {
			_, err := e.build(w)
			return err
		})
	})
}

// BenchmarkRun runs a graph, in a new session each time. The first run, which fills what an engine keeps for later ones, is
// not measured.
func BenchmarkRun(b *testing.B) {
	perGraph(b, func(b *testing.B, e Engine, w *Work) {
		g, err := e.build(w)
		if err != nil {
			b.Fatal(err)
		}
		run := func() error {
			output, err := g.Run(context.Background(), "hello")
			if want, calls := w.Shape.Last().Value, w.Calls(); err == nil && (output != want || calls != len(w.Shape.Nodes)) {
				err = fmt.Errorf("%q after %d calls of nodes, want %q after %d", output, calls, want, len(w.Shape.Nodes))
			}
			return err
		}
		if err := g.Reset(); err != nil {
			b.Fatal(err)
		}
		if err := run(); err != nil {
			b.Fatal(err)
		}
		measure(b, run)
	})
}
