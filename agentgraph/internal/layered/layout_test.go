package layered

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSound checks random graphs: nothing overlaps, edges lead downwards and pass no
// box or label but their own, and the same graph has the same drawing.
func TestSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Custom(func(t *rapid.T) Size {
			return Size{rapid.IntRange(1, 300).Draw(t, "width"), rapid.IntRange(1, 200).Draw(t, "height")}
		})
		boxes := rapid.SliceOfN(size, 1, 25).Draw(t, "boxes")
		edges := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Edge {
			to := rapid.IntRange(0, len(boxes)-1).Draw(t, "to")
			e := Edge{From: rapid.IntRange(0, max(0, to-1)).Draw(t, "from"), To: to}
			if rapid.Bool().Draw(t, "has a label") {
				e.Label = size.Draw(t, "label")
			}
			return e
		}), 0, 60).Draw(t, "edges")
		edges = withoutLoops(edges)
		d, err := Layout(boxes, edges)
		require.NoError(t, err)
		requireSound(t, boxes, edges, d)
		again, err := Layout(boxes, edges)
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}

func withoutLoops(edges []Edge) (kept []Edge) {
	for _, e := range edges {
		if e.From != e.To {
			kept = append(kept, e)
		}
	}
	return kept
}

type area struct {
	Point
	Size
	edge int // whose label it is, or -1
	box  int
}

func requireSound(t require.TestingT, boxes []Size, edges []Edge, d Drawing) {
	require.Len(t, d.Boxes, len(boxes))
	require.Len(t, d.Edges, len(edges))
	var areas []area
	for i, at := range d.Boxes {
		areas = append(areas, area{at, boxes[i], -1, i})
	}
	for i, e := range edges {
		if e.Label != (Size{}) {
			areas = append(areas, area{d.Edges[i].Label, e.Label, i, -1})
		}
	}
	for i, a := range areas {
		require.True(t, a.X >= 0 && a.Y >= 0 && a.X+a.Width <= d.Size.Width && a.Y+a.Height <= d.Size.Height, "%+v is outside of %+v", a, d.Size)
		for _, b := range areas[:i] {
			require.False(t, a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height, "%+v and %+v overlap", a, b)
		}
	}
	for i, e := range edges {
		points := d.Edges[i].Points
		require.Zero(t, len(points)%2)
		first, last := points[0], points[len(points)-1]
		from, to := d.Boxes[e.From], d.Boxes[e.To]
		require.Equal(t, from.Y+boxes[e.From].Height, first.Y)
		require.Equal(t, to.Y, last.Y)
		require.True(t, first.X >= from.X && first.X <= from.X+boxes[e.From].Width)
		require.True(t, last.X >= to.X && last.X <= to.X+boxes[e.To].Width)
		for k := 1; k < len(points); k++ {
			a, b := points[k-1], points[k]
			require.LessOrEqual(t, a.Y, b.Y)
			if k%2 == 1 {
				require.Equal(t, a.X, b.X)
			}
			for _, o := range areas {
				if o.edge == i || a.Y >= o.Y+o.Height || b.Y <= o.Y {
					continue // it is the edge's own, or at another height
				}
				require.Equal(t, 1, k%2, "a bend at the height of %+v", o)
				require.False(t, a.X > o.X && a.X < o.X+o.Width, "edge %d runs through %+v", i, o)
			}
		}
	}
}

func TestShapes(t *testing.T) {
	box := Size{100, 40}
	d, err := Layout([]Size{box, box, box}, []Edge{{From: 0, To: 1}, {From: 0, To: 2}})
	require.NoError(t, err)
	require.Equal(t, []Point{{68, 0}, {0, 93}, {136, 93}}, d.Boxes)
	require.Equal(t, Size{236, 133}, d.Size)

	// A box without incoming edges is right above what it leads to.
	d, err = Layout([]Size{box, box, box, box}, []Edge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 3, To: 2}})
	require.NoError(t, err)
	require.Equal(t, d.Boxes[1].Y, d.Boxes[3].Y)

	// Sides are changed where that avoids a crossing.
	d, err = Layout([]Size{box, box, box, box, box}, []Edge{{From: 0, To: 1}, {From: 0, To: 2}, {From: 2, To: 3}, {From: 1, To: 4}, {From: 2, To: 4}})
	require.NoError(t, err)
	require.Equal(t, d.Boxes[1].X < d.Boxes[2].X, d.Boxes[4].X < d.Boxes[3].X)

	// Parts that nothing connects are side by side, and not far apart.
	wide := Size{600, 40}
	d, err = Layout([]Size{box, wide, wide, box, box}, []Edge{{From: 0, To: 1}, {From: 0, To: 2}, {From: 3, To: 4}})
	require.NoError(t, err)
	requireSound(t, []Size{box, wide, wide, box, box}, []Edge{{From: 0, To: 1}, {From: 0, To: 2}, {From: 3, To: 4}}, d)
	require.Equal(t, d.Boxes[2].X+wide.Width+gapBoxes, d.Boxes[4].X)
	require.Equal(t, d.Boxes[4].X+box.Width, d.Size.Width)

	d, err = Layout(nil, nil)
	require.NoError(t, err)
	require.Equal(t, Size{}, d.Size)
}

func TestRefused(t *testing.T) {
	boxes := []Size{{1, 1}, {1, 1}}
	_, err := Layout(boxes, []Edge{{From: 0, To: 1}, {From: 1, To: 0}})
	require.ErrorIs(t, err, errCycle)
	_, err = Layout(boxes, []Edge{{From: 1, To: 1}})
	require.ErrorIs(t, err, errCycle)
	_, err = Layout(boxes, []Edge{{From: 0, To: 2}})
	require.ErrorContains(t, err, "from box 0 to box 2")
	_, err = Layout(boxes, []Edge{{From: -1, To: 1}})
	require.Error(t, err)
	_, err = Layout(make([]Size, MaxPlaces+1), nil)
	require.ErrorIs(t, err, ErrTooLarge)
}

// TestLarge lays out graphs at the bounds, and refuses those beyond them at once.
func TestLarge(t *testing.T) {
	const n = 2000
	boxes := make([]Size, n)
	chain := make([]Edge, 0, 2*n)
	for i := range boxes {
		boxes[i] = Size{120, 40}
		if i > 0 {
			chain = append(chain, Edge{From: i - 1, To: i})
		}
	}
	d, err := Layout(boxes, chain)
	require.NoError(t, err)
	require.Equal(t, 120, d.Size.Width)

	long := chain
	for i := 2; i < n; i++ { // all of them pass about a thousand layers
		long = append(long, Edge{From: 0, To: i})
	}
	_, err = Layout(boxes, long)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "cross 1997001 layers")

	random := rand.New(rand.NewSource(1))
	var edges []Edge
	for i := 1; i < n; i++ {
		for range 2 {
			edges = append(edges, Edge{From: random.Intn(i), To: i, Label: Size{80, 20}})
		}
	}
	d, err = Layout(boxes, edges)
	require.NoError(t, err)
	require.Len(t, d.Edges, len(edges))
}
