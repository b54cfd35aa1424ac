package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/benchmarks/graphs"
)

func TestGraphSection(t *testing.T) {
	engines := []graphs.Engine{
		{Name: "a", Title: "Arbor", Module: "github.com/agentarbor/arbor", Stored: true},
		{Name: "b", Title: "Other", Module: "example.com/other"},
		{Name: "c", Title: "Third", Module: "example.com/third", Stored: true},
	}
	m, err := parse(results(
		"BenchmarkRun/framework=a/chain=1000-2 \t 10\t N000000 ns/op\t 6000000 cpu-ns/op\t 800000 B/op\t 10000 allocs/op",
		"BenchmarkRun/framework=b/chain=1000-2 \t 10\t N0000000 ns/op\t 30000000 cpu-ns/op\t 400000 B/op\t 100000 allocs/op"))
	require.NoError(t, err)
	text := graphSection(m, engines)
	require.Contains(t, text, "| | Arbor | Other, alone | Third |")
	require.Contains(t, text, "| chain of 1,000 | 3.0 µs | 30 µs | – |")
	require.Contains(t, text, "| chain of 1,000 | 1 | 10 × / 10 × / 0.5 × | – |")
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
