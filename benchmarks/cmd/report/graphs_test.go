package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/benchmarks/graphs"
)

// TestMeasureGraphs measures small graphs a little and reads the figures back.
func TestMeasureGraphs(t *testing.T) {
	b := graphBench{engines: graphs.Engines(), nodes: []int{5, 8}, rounds: 3, batch: time.Microsecond, limit: time.Minute}
	var text bytes.Buffer
	require.NoError(t, b.measure(t.Context(), &text))
	g, err := parseGraphs(text.Bytes())
	require.NoError(t, err)
	require.Equal(t, b.nodes, g.nodes)
	require.Len(t, g.cases, 2*2*len(graphs.Shapes())*len(b.engines))
	for key, result := range g.cases {
		require.Len(t, result.figures, b.rounds, key)
		require.Positive(t, median(each(result.figures, ns)), key)
		require.Positive(t, median(each(result.figures, allocs)), key)
	}
}

// TestMeasureGraphsLimit gives a run no time: what is expected to take longer is left
// out, as soon as something can be expected.
func TestMeasureGraphsLimit(t *testing.T) {
	b := graphBench{engines: graphs.Engines()[:1], nodes: []int{5, 50, 500}, rounds: 1, limit: 1}
	var text bytes.Buffer
	require.NoError(t, b.measure(t.Context(), &text))
	g, err := parseGraphs(text.Bytes())
	require.NoError(t, err)
	for _, shape := range graphs.Shapes() {
		key := graphKey{stepRun, shape, 50, b.engines[0].Name}
		require.Len(t, g.cases[key].figures, 1)
		require.Empty(t, g.cases[key].notRun)
		key.nodes = 500
		require.Empty(t, g.cases[key].figures)
		require.NotEmpty(t, g.cases[key].notRun)
	}
}

func TestGrowth(t *testing.T) {
	var g growth
	require.Zero(t, g.expect(100))
	g.add(10, time.Second)
	require.Zero(t, g.expect(100))
	g.add(100, 100*time.Second)
	require.InDelta(t, 10_000*time.Second, g.expect(1000), float64(time.Second), "the square")
	g.add(200, 200*time.Second)
	require.InDelta(t, 1000*time.Second, g.expect(1000), float64(time.Second), "as many times")
}

// graphResults are the lines of two engines on one graph, in three rounds; the
// third engine would take too long.
const graphResults = `machine: 2 cores
not run: BenchmarkGraph/step=run/shape=chain/nodes=1000/engine=c would take 30 s
BenchmarkGraph/step=run/shape=chain/nodes=1000/engine=a	10	3000.0 ns/node	6000.0 cpu-ns/node	800 B/node	10.00 allocs/node	2.00 events/node
BenchmarkGraph/step=run/shape=chain/nodes=1000/engine=b	10	30000.0 ns/node	30000.0 cpu-ns/node	400 B/node	100.00 allocs/node	0.00 events/node
BenchmarkGraph/step=run/shape=chain/nodes=1000/engine=b	10	60000.0 ns/node	30000.0 cpu-ns/node	400 B/node	100.00 allocs/node	0.00 events/node
BenchmarkGraph/step=run/shape=chain/nodes=1000/engine=a	10	2000.0 ns/node	6000.0 cpu-ns/node	800 B/node	10.00 allocs/node	2.00 events/node
BenchmarkGraph/step=run/shape=chain/nodes=1000/engine=a	10	4000.0 ns/node	6000.0 cpu-ns/node	800 B/node	10.00 allocs/node	2.00 events/node
BenchmarkGraph/step=run/shape=chain/nodes=1000/engine=b	10	20000.0 ns/node	30000.0 cpu-ns/node	400 B/node	100.00 allocs/node	0.00 events/node
`

func TestGraphSection(t *testing.T) {
	engines := []graphs.Engine{
		{Name: "a", Title: "Arbor", Module: "github.com/agentarbor/arbor", Stored: true},
		{Name: "b", Title: "Other", Module: "example.com/other"},
		{Name: "c", Title: "Third", Module: "example.com/third", Stored: true},
	}
	g, err := parseGraphs([]byte(graphResults))
	require.NoError(t, err)
	text := graphSection(g, engines)
	require.Contains(t, text, "| | Arbor | Other, alone | Third |")
	require.Contains(t, text, "| chain of 1,000 | 3.0 µs | 30 µs | not run: about 30 s in all |")
	require.Contains(t, text, "| chain of 1,000 | 1 | 10 × / 10 × / 0.5 × | – |", "10, 30 and 5 times, by round")
	require.Contains(t, text, "- chain of 1,000: Other, alone needs 50 % of the bytes.")
	require.Contains(t, graphSection(nil, engines), "no figures")
}

func TestBase(t *testing.T) {
	own := "github.com/agentarbor/arbor"
	engines := []graphs.Engine{{Name: "other", Stored: true}, {Name: "own", Module: own, Stored: true}}
	require.Equal(t, "own", base(engines, graphs.Engine{Stored: true}))
	require.Equal(t, "own", base(engines, graphs.Engine{}))
	engines = append(engines, graphs.Engine{Name: "own-alone", Module: own})
	require.Equal(t, "own", base(engines, graphs.Engine{Stored: true}))
	require.Equal(t, "own-alone", base(engines, graphs.Engine{}))
	slices.Reverse(engines)
	require.Equal(t, "own", base(engines, graphs.Engine{Stored: true}))
}

func TestParseGraphsRefuses(t *testing.T) {
	line := "BenchmarkGraph/step=run/shape=chain/nodes=100/engine=a\t1\t1.0 ns/node\t1.0 cpu-ns/node\t1 B/node\t1.00 allocs/node\t1.00 events/node\n"
	for name, text := range map[string]string{
		"nothing":         "machine: 2 cores\n",
		"other":           "FAIL\n",
		"nothing run":     "not run: BenchmarkGraph/step=run/shape=chain/nodes=100/engine=a would take 1.0 s\n",
		"not a number":    strings.Replace(line, "1.0 ns", "one ns", 1),
		"unequal numbers": line + line + strings.Replace(line, "engine=a", "engine=b", 1),
	} {
		_, err := parseGraphs([]byte(text))
		require.Error(t, err, name)
	}
}

func TestSizes(t *testing.T) {
	nodes, err := sizes("100,1000")
	require.NoError(t, err)
	require.Equal(t, []int{100, 1000}, nodes)
	_, err = sizes("100, 1000")
	require.Error(t, err)
}
