package eval_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/eval"
)

// TestWilsonFormula: the bounds are the shares p whose distance from what was seen is z standard
// deviations, |seen-p| = z sqrt(p(1-p)/n), which is what the interval is derived from.
func TestWilsonFormula(t *testing.T) {
	require.Equal(t, eval.Interval{High: 1}, eval.Wilson(0, 0))
	rapid.Check(t, func(rt *rapid.T) {
		of := rapid.IntRange(1, 1_000_000).Draw(rt, "of")
		right := rapid.IntRange(0, of).Draw(rt, "right")
		i := eval.Wilson(right, of)
		require.Equal(rt, right, i.Right)
		require.Equal(rt, of, i.Of)
		require.True(rt, 0 <= i.Low && i.Low <= i.Share && i.Share <= i.High && i.High <= 1, "%v", i)
		for _, p := range []float64{i.Low, i.High} {
			if p > 0 && p < 1 {
				require.InDelta(rt, 1.959963984540054, math.Abs(i.Share-p)/math.Sqrt(p*(1-p)/float64(of)), 1e-6, "%v", i)
			}
		}
		require.Equal(rt, right == 0, i.Low == 0)
		require.Equal(rt, right == of, i.High == 1)
	})
}

func TestPercentile(t *testing.T) {
	require.Zero(t, eval.Percentile(nil, 50))
	var times []time.Duration
	for i := range 20 {
		times = append(times, time.Duration(20-i))
	}
	require.Equal(t, time.Duration(10), eval.Percentile(times, 50))
	require.Equal(t, time.Duration(19), eval.Percentile(times, 95))
	require.Equal(t, time.Duration(20), eval.Percentile(times, 100))
	require.Equal(t, time.Duration(7), eval.Percentile([]time.Duration{7}, 50))
	require.Equal(t, time.Duration(20), times[0])
	for i := range 11 {
		times = append(times, time.Duration(21+i))
	}
	require.Equal(t, time.Duration(30), eval.Percentile(times, 95), "29.45 of 31 are not enough")
}

// TestMatricesAddUp: every decision is in one cell of the matrix of who made it, what is right on
// the diagonal.
func TestMatricesAddUp(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c", "d", "b|c"})
	rapid.Check(t, func(rt *rapid.T) {
		var r eval.Results
		want := map[eval.Decision]int{}
		n, right := 0, 0
		for range rapid.IntRange(0, 5).Draw(rt, "turns") {
			var turn eval.TurnOutcome
			for range rapid.IntRange(0, 8).Draw(rt, "decisions") {
				d := eval.Decision{From: names.Draw(rt, "from"), Expected: names.Draw(rt, "expected"), Chosen: names.Draw(rt, "chosen")}
				turn.Decisions = append(turn.Decisions, d)
				want[d]++
				n++
				if d.Expected == d.Chosen {
					right++
				}
			}
			r.Outcomes = append(r.Outcomes, eval.Outcome{Turns: []eval.TurnOutcome{turn}})
		}
		s := r.Summary()
		require.Equal(rt, eval.Wilson(right, n), s.Decisions)
		got, diagonal := map[eval.Decision]int{}, 0
		from := map[string]bool{}
		for _, m := range s.Edges {
			require.False(rt, from[m.From])
			from[m.From] = true
			require.Equal(rt, m.From, m.Names[0])
			require.Len(rt, m.Counts, len(m.Names))
			for i, row := range m.Counts {
				require.Len(rt, row, len(m.Names))
				for j, count := range row {
					if count > 0 {
						got[eval.Decision{From: m.From, Expected: m.Names[i], Chosen: m.Names[j]}] += count
					}
				}
				diagonal += row[i]
			}
		}
		require.Equal(rt, want, got)
		require.Equal(rt, right, diagonal)
	})
}
