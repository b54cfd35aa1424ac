package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// waiting returns the mean wait in a queue with exponential times and so many workers: Erlang's C formula.
func waiting(rate, service float64, workers int) float64 {
	offered := rate * service
	term, sum := 1.0, 0.0
	for k := range workers {
		sum += term
		term *= offered / float64(k+1)
	}
	last := term / (1 - offered/float64(workers))
	return last / (sum + last) * service / (float64(workers) - offered)
}

// TestFormulas compares the simulation with queues whose mean wait is known.
func TestFormulas(t *testing.T) {
	for _, c := range []struct {
		rate    float64
		workers int
		fixed   bool
		want    float64
	}{
		{500, 1, false, waiting(500, 0.001, 1)},
		{800, 1, false, waiting(800, 0.001, 1)},
		{3200, 4, false, waiting(3200, 0.001, 4)},
		{14000, 16, false, waiting(14000, 0.001, 16)},
		{800, 1, true, 0.8 * 0.001 / (2 * (1 - 0.8))}, // Pollaczek and Khinchine, for M/D/1
		{500, 1, true, 0.5 * 0.001 / (2 * (1 - 0.5))},
	} {
		l := load{sessions: 100, perUser: 1, rate: c.rate, turns: 400_000, calls: 1, service: 0.001, workers: c.workers, fixed: c.fixed, seed: 7}
		o, err := l.simulate(1)
		require.NoError(t, err)
		require.InEpsilon(t, c.want, o.meanWait, 0.05, "%+v", c)
		require.InEpsilon(t, c.rate*0.001/float64(c.workers), o.utilisation[0], 0.02, "%+v", c)
	}
	require.InDelta(t, 0.001*.5/(1-.5), waiting(500, 0.001, 1), 1e-12) // the formula itself, for M/M/1
}

// TestCallsOfATurn: calls that follow each other after a while come to a shard like others.
func TestCallsOfATurn(t *testing.T) {
	l := load{sessions: 1000, perUser: 1, rate: 800, turns: 200_000, calls: 4, think: 1, service: 0.001, workers: 4, seed: 3}
	o, err := l.simulate(1)
	require.NoError(t, err)
	require.Len(t, o.wait, 800_000)
	require.Len(t, o.inStore, 200_000)
	require.InEpsilon(t, waiting(3200, 0.001, 4), o.meanWait, 0.1)
}

func TestMoved(t *testing.T) {
	l := load{sessions: 100_000, perUser: 5}
	for _, shards := range []int{1, 4, 9} {
		moved, wrong, err := l.moved(shards)
		require.NoError(t, err)
		require.InEpsilon(t, 100_000/float64(shards+1), float64(moved), 0.05)
		require.Zero(t, wrong)
	}
}

// TestCommand: one seed, one answer; and what there is not is refused.
func TestCommand(t *testing.T) {
	var first, second bytes.Buffer
	args := []string{"-sessions", "10000", "-turns", "20000", "-rate", "9000", "-bytes", "4000"}
	require.NoError(t, run(args, &first))
	require.NoError(t, run(args, &second))
	require.Equal(t, first.String(), second.String())
	require.Contains(t, first.String(), "another shard")
	for _, bad := range [][]string{{"-rate", "0"}, {"-rate", "NaN"}, {"-rate", "Inf"}, {"-sessions", "0"}, {"-skew", "0.5"}, {"-service", "0s"}, {"-shards", "-1"}} {
		require.Error(t, run(bad, &first), bad)
	}
	require.NoError(t, run(append(args, "-skew", "1.2", "-shards", "3"), &first))
}
