package conversation

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireDrawn checks that no two boxes meet, that edges lead down by one layer at
// least, and that every edge has its boxes.
func requireDrawn(t require.TestingT, l Layout) {
	at := map[string]Box{}
	for _, b := range l.Nodes {
		_, twice := at[b.ID]
		require.False(t, twice, b.ID)
		at[b.ID] = b
		require.Positive(t, b.Width)
		require.Positive(t, b.Height)
	}
	a, b, meet := overlap(l.Nodes)
	require.False(t, meet, "%v and %v overlap", a, b)
	for _, e := range l.Edges {
		from, ok := at[e.From]
		require.True(t, ok)
		to, ok := at[e.To]
		require.True(t, ok)
		require.LessOrEqual(t, from.Y+from.Height, to.Y)
	}
}

// overlap returns two boxes that meet, if there are any: a line sweeps from the
// left to the right, and the boxes that it crosses are kept in the order of their
// upper edges. As they do not meet, one more can meet its neighbours only.
func overlap(boxes []Box) (a, b Box, meet bool) {
	type edge struct {
		x      int
		begins bool
		box    Box
	}
	var edges []edge
	for _, b := range boxes {
		edges = append(edges, edge{b.X, true, b}, edge{b.X + b.Width, false, b})
	}
	slices.SortStableFunc(edges, func(e, f edge) int {
		if e.x == f.x && e.begins != f.begins { // one may begin where another one ends
			if e.begins {
				return 1
			}
			return -1
		}
		return e.x - f.x
	})
	var crossed []Box
	for _, e := range edges {
		i, found := slices.BinarySearchFunc(crossed, e.box, func(b, c Box) int { return b.Y - c.Y })
		if !e.begins {
			crossed = slices.Delete(crossed, i, i+1)
			continue
		}
		if found {
			return crossed[i], e.box, true
		}
		if i > 0 && crossed[i-1].Y+crossed[i-1].Height > e.box.Y {
			return crossed[i-1], e.box, true
		}
		if i < len(crossed) && e.box.Y+e.box.Height > crossed[i].Y {
			return crossed[i], e.box, true
		}
		crossed = slices.Insert(crossed, i, e.box)
	}
	return a, b, false
}

// TestOverlap: the sweep finds what comparing every two boxes finds.
func TestOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(0, 30)
		var boxes []Box
		for i := range rapid.IntRange(0, 6).Draw(t, "boxes") {
			boxes = append(boxes, Box{ID: fmt.Sprint(i), X: number.Draw(t, "x"), Y: number.Draw(t, "y"), Width: 1 + number.Draw(t, "width")/3, Height: 1 + number.Draw(t, "height")/3})
		}
		want := false
		for i, a := range boxes {
			for _, b := range boxes[:i] {
				want = want || a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height
			}
		}
		_, _, got := overlap(boxes)
		require.Equal(t, want, got)
	})
}

// TestDAGDoesNotOverlap draws random graphs and compares with the edges of the
// graph, where nothing is hidden.
func TestDAGDoesNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New()
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			g = must.Get(g.ReduceJSON([]byte(anyEvent(t))))
		}
		l := DAG(g, Active{})
		requireDrawn(t, l)
		require.Equal(t, l, DAG(g, Active{}))
		for _, e := range l.Edges {
			require.Equal(t, e.From, g.Parents(e.To)[0].ID)
		}
		for n := range g.Nodes() {
			a := must.Get(Active{}.Switch(g, n.ID))
			requireDrawn(t, DAG(g, a))
			a = must.Get(a.Collapse(g, n.ID))
			requireDrawn(t, DAG(g, a))
			a = must.Get(a.Summarize(g, n.ID, "short"))
			requireDrawn(t, DAG(g, a))
		}
	})
}

func TestDAGOfACase(t *testing.T) {
	g := New()
	for _, line := range lines(t, "03-subagent") {
		g = must.Get(g.ReduceJSON(line))
	}
	l := DAG(g, Active{})
	requireDrawn(t, l)
	require.Len(t, l.Nodes, g.Len())
	require.Len(t, l.Edges, g.Len()-1)
	boxes := map[string]Box{}
	for _, b := range l.Nodes {
		boxes[b.ID] = b
	}
	require.Equal(t, boxes["tc-1"].X, boxes["tc-1:result"].X, "a run stays in its column")
	require.Greater(t, boxes["a2:harness_start"].X, boxes["tc-1"].X, "a sub-agent stands beside it")
	require.Equal(t, boxes["a2:harness_start"].Y, boxes["tc-1:result"].Y, "as many steps from the root, as far down")
	require.Equal(t, "I'll search...", boxes["p1"].Label)
}

// large makes a graph of at least n nodes: runs of ten. Each hangs on an earlier
// one, as a part of it or after it.
func large(n int) *Graph {
	g := New()
	for i := 0; g.Len() < n; i++ {
		parent := ""
		if i > 0 {
			parent = fmt.Sprintf("run%d:%s", i*7/10, []string{"harness_start", "harness_end"}[i%2])
		}
		events := []string{fmt.Sprintf(`{"type":"harness_start","runId":"run%d","parentId":%q,"agentId":"x"}`, i, parent)}
		for j := range 8 {
			events = append(events, text(fmt.Sprintf("run%d", i), fmt.Sprintf("t%d-%d", i, j), strings.Repeat("word ", 10)))
		}
		events = append(events, fmt.Sprintf(`{"type":"harness_end","runId":"run%d","agentId":"x"}`, i))
		for _, e := range events {
			g, _ = g.ReduceJSON([]byte(e))
		}
	}
	return g
}

// shapes are graphs of 5,000 nodes and more that a layout could stumble over.
func shapes() map[string]*Graph {
	add := func(g *Graph, run, id, parent string) *Graph {
		g, _ = g.ReduceJSON([]byte(fmt.Sprintf(`{"type":"tool_call","id":%q,"runId":%q,"parentId":%q}`, id, run, parent)))
		return g
	}
	chain, wide, deep, roots, late, tree, comb := New(), New(), New(), New(), New(), New(), New()
	wide = add(wide, "r", "root", "")
	for i := range 5000 {
		id := fmt.Sprint(i)
		chain = add(chain, "r", id, "")
		deep = add(deep, "run"+id, id, fmt.Sprint(i-1))
		roots = add(roots, "run"+id, id, "")
		tree = add(tree, "run"+id, id, fmt.Sprint((i-1)/3))
		// Every parent comes after its children, each with two runs that wait for it.
		late = add(late, "run"+id, id, fmt.Sprint((i+5000)/2))
		// A chain with a chain of two at every node.
		comb = add(comb, fmt.Sprint("run", i%3*i), id, fmt.Sprint(i-i%3))
	}
	for i := range 2000 {
		wide = add(wide, fmt.Sprint("run", i), fmt.Sprint(i), "root")
		wide = add(wide, fmt.Sprint("run", i), fmt.Sprint(i, "b"), "")
		wide = add(wide, fmt.Sprint("inner", i), fmt.Sprint(i, "c"), fmt.Sprint(i))
	}
	return map[string]*Graph{"mixed": large(10_000), "chain": chain, "wide": wide, "deep": deep, "roots": roots, "late": late, "tree": tree, "comb": comb}
}

func TestDAGOfFiveThousandNodes(t *testing.T) {
	for name, g := range shapes() {
		begin := time.Now()
		l := DAG(g, Active{})
		require.Less(t, time.Since(begin), time.Minute, "%s: a few milliseconds are usual", name)
		if name == "mixed" {
			require.Greater(t, len(l.Nodes), 2000, "one branch of several")
		} else {
			require.GreaterOrEqual(t, len(l.Nodes), 5000, name)
			require.Len(t, l.Nodes, g.Len(), name)
			edges := 0
			for n := range g.Nodes() {
				edges += len(g.Parents(n.ID))
			}
			require.Len(t, l.Edges, edges, name)
		}
		requireDrawn(t, l)
		require.Equal(t, l, DAG(g, Active{}))
	}
	first, second := large(1000), large(1000)
	require.Equal(t, DAG(first, Active{}), DAG(second, Active{}), "equal graphs, equal drawings")
}

// TestProjectionsAreLinear counts what projections of 1,000 and of 10,000 nodes of
// a conversation allocate; slices and maps grow in leaps. It would not see a loop in a loop that allocates
// nothing; the benchmark does.
func TestProjectionsAreLinear(t *testing.T) {
	for name, make := range map[string]func(n int) *Graph{
		"turns": func(n int) *Graph {
			g := New()
			for s := (stream{}); g.Len() < n; {
				g = g.Reduce(s.next())
			}
			return g
		},
		"one run": func(n int) *Graph {
			g := New()
			for i := range n {
				g, _ = g.ReduceJSON([]byte(text("r", fmt.Sprint(i), strings.Repeat("word ", 20))))
			}
			return g
		},
	} {
		small, large := make(1000), make(10_000)
		for projection, project := range map[string]func(*Graph){
			"thread":     func(g *Graph) { Thread(g, Active{}, ThreadOptions{}) },
			"messages":   func(g *Graph) { Messages(g, Active{}) },
			"dag":        func(g *Graph) { DAG(g, Active{}) },
			"hypergraph": func(g *Graph) { HypergraphOf(g, Active{}) },
		} {
			few, many := allocated(func() { project(small) }), allocated(func() { project(large) })
			require.Less(t, many, 25*few+100_000, "%s of %s: bytes", projection, name)
		}
	}
}

// allocated counts the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLabel(t *testing.T) {
	require.Equal(t, "a b", line(" a\n\tb\x00 "))
	require.Equal(t, strings.Repeat("é", 27)+"…", line(strings.Repeat("é", 500)))
	require.Empty(t, line(""))
}
