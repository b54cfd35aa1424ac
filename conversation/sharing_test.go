package conversation

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestVector compares vectors that grow from each other with slices.
func TestVector(t *testing.T) {
	type pair struct {
		v vector[int]
		s []int
	}
	check := func(t require.TestingT, p pair) {
		require.Equal(t, len(p.s), p.v.n)
		for i, want := range p.s {
			require.Equal(t, want, *p.v.get(i))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		all := []pair{{}}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			p := all[rapid.IntRange(0, len(all)-1).Draw(t, "from")]
			p.s = append([]int(nil), p.s...)
			if len(p.s) > 0 && rapid.Bool().Draw(t, "set") {
				i, x := rapid.IntRange(0, len(p.s)-1).Draw(t, "at"), rapid.Int().Draw(t, "x")
				p.v.set(i, &x)
				p.s[i] = x
			} else {
				for range rapid.IntRange(1, 300).Draw(t, "items") {
					x := len(p.s)
					p.v.add(&x)
					p.s = append(p.s, x)
				}
			}
			all = append(all, p)
		}
		for _, p := range all {
			check(t, p)
		}
	})

	var v vector[int]
	const n = 1<<20 + 1000 // more than one tree
	for i := range n {
		v.add(&i)
	}
	old := v
	for _, i := range []int{0, 15, 16, 255, 4096, 1<<16 - 1, 1<<20 - 1, 1 << 20, n - 1} {
		x := -i - 1
		v.set(i, &x)
		require.Equal(t, -i-1, *v.get(i))
		require.Equal(t, i, *old.get(i))
	}
}

// TestOldGraphsStay keeps graphs of a long stream, with deltas in it, and looks at
// them again at the end.
func TestOldGraphsStay(t *testing.T) {
	var s stream
	g := New()
	kept := map[int]*Graph{}
	for i := range 12_000 {
		if e := s.next(); i%7 == 3 && e.Type() == event.TypeText {
			for range 3 {
				g = g.Reduce(&event.Event{ID: e.ID, RunID: e.RunID, Partial: true, Data: &event.Text{Content: "…"}})
			}
		} else {
			g = g.Reduce(e)
		}
		if i < 3 || i == 17 || i == 1000 || i == 8000 {
			kept[i] = g
		}
	}
	for i, old := range kept {
		var s stream
		again := New()
		for j := range i + 1 {
			if e := s.next(); j%7 == 3 && e.Type() == event.TypeText {
				for range 3 {
					again = again.Reduce(&event.Event{ID: e.ID, RunID: e.RunID, Partial: true, Data: &event.Text{Content: "…"}})
				}
			} else {
				again = again.Reduce(e)
			}
		}
		require.Equal(t, asJSON(t, again), asJSON(t, old))
		requireSound(t, old)
	}
}

// TestManyForksOfOneGraph: what is tried out and thrown away leaves nothing behind
// that grows.
func TestManyForksOfOneGraph(t *testing.T) {
	g := fold(t, start, text("r", "t", "x"))
	for i := range 10_000 {
		line := text("r", fmt.Sprintf("try%d", i), "y")
		if i%2 == 0 {
			line = text(fmt.Sprintf("run%d", i), "t", "y")
		}
		fork := must.Get(g.ReduceJSON([]byte(line)))
		require.Equal(t, 3, fork.Len())
		_, ok := fork.Node(fmt.Sprintf("try%d", i-1))
		require.False(t, ok, "another fork's")
	}
	require.Less(t, g.names.Load().size.Load(), int64(200))
	require.Equal(t, "r:harness_start t=x r:harness_start>t", drawn(g))
}

// TestDiscardedAttempts: so do attempts without end.
func TestDiscardedAttempts(t *testing.T) {
	g := fold(t, start)
	for range 10_000 {
		for _, line := range []string{partial("r", "t", "x"), `{"type":"discard","runId":"r","ids":["t"]}`} {
			g = must.Get(g.ReduceJSON([]byte(line)))
		}
	}
	require.Equal(t, "r:harness_start", drawn(g))
	require.Less(t, g.names.Load().size.Load(), int64(200))
}

// TestWords compares words that grow from each other with strings.
func TestWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type pair struct {
			w words
			s string
		}
		all := []pair{{words{}.plus(nil), ""}}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			p := all[len(all)-1]
			if rapid.IntRange(0, 4).Draw(t, "fork") == 0 {
				p = all[rapid.IntRange(0, len(all)-1).Draw(t, "from")]
			}
			piece := strings.Repeat(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "letter"), rapid.IntRange(0, 200).Draw(t, "times"))
			all = append(all, pair{p.w.plus([]byte(piece)), p.s + piece})
		}
		for _, p := range all {
			require.Equal(t, `"`+p.s+`"`, string(p.w.json()))
		}
	})
}

// TestForksOfALongText: trying every delta twice does not copy the text.
func TestForksOfALongText(t *testing.T) {
	var before, after runtime.MemStats
	g := fold(t, partial("r", "t", strings.Repeat("x", 100_000)))
	runtime.ReadMemStats(&before)
	for range 1000 {
		delta := &event.Event{ID: "t", RunID: "r", Partial: true, Data: &event.Text{Content: "y"}}
		g.Reduce(delta)
		g = g.Reduce(delta)
	}
	runtime.ReadMemStats(&after)
	require.Len(t, g.Text("r"), 101_000)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10_000_000))
}

// TestConcurrentUse reduces one graph in several directions at once, while others
// read it.
func TestConcurrentUse(t *testing.T) {
	g := fold(t, start, partial("r", "t", "x"))
	before := asJSON(t, g)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			mine := g
			for j := range 200 {
				for _, line := range []string{partial("r", "t", fmt.Sprint(i)), text("r", fmt.Sprintf("n%d", j), fmt.Sprint(i)), text(fmt.Sprintf("run%d", i), fmt.Sprintf("m%d", j), "y")} {
					mine, _ = mine.ReduceJSON([]byte(line))
				}
			}
			if n, _ := mine.Node("t"); n.Text() != "x"+strings.Repeat(fmt.Sprint(i), 200) {
				t.Errorf("another fork's words: %s", n.Text())
			}
			requireSound(t, mine)
			if mine.Len() != 402 {
				t.Errorf("%d nodes", mine.Len())
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if asJSON(t, g) != before {
				t.Error("the graph has changed")
			}
		}
	})
	wg.Wait()
}

// TestConcurrentForksArePure: goroutines take one graph of random events into
// different directions, again with random events, and back to graphs in between;
// each gets what a graph without relatives would get, and nobody changes what
// another one holds. The race detector looks on.
func TestConcurrentForksArePure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(n int) []string {
			var events []string
			for range n {
				events = append(events, anyEvent(t))
			}
			return events
		}
		common := append(branchedEvents(t), draw(rapid.IntRange(0, 20).Draw(t, "more"))...)
		base := reduceAll(t, common)
		before := asJSONOf(t, base)
		own := make([][]string, 4)
		for i := range own {
			own[i] = draw(rapid.IntRange(1, 25).Draw(t, "own"))
		}
		results := make([]*Graph, len(own))
		var wg sync.WaitGroup
		for i := range own {
			wg.Go(func() {
				results[i] = base
				for j, line := range own[i] {
					results[i], _ = results[i].ReduceJSON([]byte(line))
					_, _ = base.ReduceJSON([]byte(own[(i+1)%len(own)][j%len(own[(i+1)%len(own)])])) // tried and thrown away
					for n := range base.Nodes() {
						base.Children(n.ID)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, before, asJSONOf(t, base))
		for i, g := range results {
			require.Equal(t, asJSONOf(t, reduceAll(t, slices.Concat(common, own[i]))), asJSONOf(t, g))
			requireSound(t, g)
		}
	})
}

// TestCostDoesNotGrow counts what is allocated for a turn's events in a short and
// in a long conversation. The index, which is a map, grows now and then, so that
// a little is allowed for it.
func TestCostDoesNotGrow(t *testing.T) {
	var s stream
	g := New()
	cost := func() float64 {
		var before, after runtime.MemStats
		const turns = 300
		events := make([]*event.Event, 10*turns)
		for i := range events {
			events[i] = s.next()
		}
		runtime.ReadMemStats(&before)
		for _, e := range events {
			g = g.Reduce(e)
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / float64(len(events))
	}
	first := cost()
	for range 20 {
		cost()
	}
	require.Less(t, cost(), first*1.2+1)
	require.Less(t, first, 12.0, "allocations an event")
}
