package layered

import (
	"errors"
	"fmt"
)

// Size is a width and a height, in any unit.
type Size struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

// Point is a position. Y grows downwards.
type Point struct {
	X int `json:"x"`
	Y int `json:"y"`
}

// Edge leads from one box to another. Several edges may have the same ends.
type Edge struct {
	From, To int  // indexes of boxes
	Label    Size // the size of its label; the zero value means no label
}

// Drawing contains all positions. The upper left corner is 0, 0.
type Drawing struct {
	Size  Size
	Boxes []Point // their upper left corners
	Edges []Route
}

// Route is the path of an edge.
type Route struct {
	// Points has an even number of points. The edge is a vertical line from each point with an even index to the next
	// one. Between these lines, where there are no boxes, it is a curve.
	Points []Point
	Label  Point // its upper left corner, if the edge has a label
}

// The smallest distances.
const (
	gapBoxes  = 36 // between boxes side by side
	gapEdges  = 14 // next to the line of an edge or a label
	gapLayers = 48 // between layers
	gapLabels = 20 // before and after a layer of labels
)

// MaxPlaces limits the work: it is the largest number of boxes, labels and crossings of edges with layers in one
// drawing.
const MaxPlaces = 100_000

// The errors of [Layout].
var (
	ErrTooLarge = errors.New("the graph is too large to be laid out")
	errCycle    = errors.New("the graph has a circle")
)

// Layout computes a drawing. The error is [ErrTooLarge], [errCycle], or reports an edge whose box does not exist. Time
// is O(n log n) in the number of places, at most about a second. Memory is at most about 100 MB.
func Layout(boxes []Size, edges []Edge) (Drawing, error) {
	if len(boxes)+len(edges) > MaxPlaces {
		return Drawing{}, fmt.Errorf("%w: %d boxes and %d edges", ErrTooLarge, len(boxes), len(edges))
	}
	for i, e := range edges {
		if min(e.From, e.To) < 0 || max(e.From, e.To) >= len(boxes) {
			return Drawing{}, fmt.Errorf("edge %d leads from box %d to box %d, and there are %d boxes", i, e.From, e.To, len(boxes))
		}
	}
	ranks, err := rank(len(boxes), edges)
	if err != nil {
		return Drawing{}, err
	}
	l := &layout{boxes: boxes, edges: edges}
	if err := l.place(ranks); err != nil {
		return Drawing{}, err
	}
	l.reorder()
	l.coordinates()
	l.together()
	return l.drawing(), nil
}

// rank returns the layer number of every box: the length of the longest path to it. A box without incoming edges is
// directly above its nearest target.
func rank(n int, edges []Edge) ([]int, error) {
	out := make([][]int, n)
	waits := make([]int, n)
	for _, e := range edges {
		out[e.From] = append(out[e.From], e.To)
		waits[e.To]++
	}
	ranks := make([]int, n)
	var ready, first []int
	for v := range n {
		if waits[v] == 0 {
			ready = append(ready, v)
		}
	}
	first = ready
	done := 0
	for len(ready) > 0 {
		v := ready[0]
		ready = ready[1:]
		done++
		for _, to := range out[v] {
			ranks[to] = max(ranks[to], ranks[v]+1)
			if waits[to]--; waits[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	if done < n {
		return nil, errCycle
	}
	for _, v := range first {
		for i, to := range out[v] {
			if i == 0 || ranks[to]-1 < ranks[v] {
				ranks[v] = ranks[to] - 1
			}
		}
	}
	return ranks, nil
}

// layout is a drawing in progress. Its places are the boxes, in order, and one place for each layer that an edge
// crosses. The first such place of an edge is also the place of its label.
type layout struct {
	boxes []Size
	edges []Edge

	size   []Size // by place
	layer  []int
	up     [][]int // by place: the connected places in the layer above
	down   [][]int
	chains [][]int // by edge: its places between its ends, from top to bottom

	layers [][]int // places, from left to right
	labels []bool  // by layer: whether it contains labels
	at     []int   // by place: its index in its layer
	x      []int   // by place: its middle
}

// place creates the places, and the layers in an initial order.
func (l *layout) place(ranks []int) error {
	// A layer of labels follows a layer of boxes if an edge from there has a label.
	last := 0
	for _, r := range ranks {
		last = max(last, r)
	}
	labelled := make([]bool, last+1)
	for _, e := range l.edges {
		if e.Label != (Size{}) {
			labelled[ranks[e.From]] = true
		}
	}
	layerOf := make([]int, last+1)
	for r := range layerOf {
		layerOf[r] = len(l.labels)
		l.labels = append(l.labels, false)
		if labelled[r] {
			l.labels = append(l.labels, true)
		}
	}

	places := len(l.boxes)
	for _, e := range l.edges {
		places += layerOf[ranks[e.To]] - layerOf[ranks[e.From]] - 1
	}
	if places > MaxPlaces {
		return fmt.Errorf("%w: its edges cross %d layers all together", ErrTooLarge, places-len(l.boxes))
	}
	l.size = append(make([]Size, 0, places), l.boxes...)
	l.layer = make([]int, len(l.boxes), places)
	l.up, l.down = make([][]int, places), make([][]int, places)
	for v, r := range ranks {
		l.layer[v] = layerOf[r]
	}
	l.chains = make([][]int, len(l.edges))
	for i, e := range l.edges {
		above := e.From
		for layer := l.layer[e.From] + 1; layer < l.layer[e.To]; layer++ {
			v := len(l.size)
			l.layer = append(l.layer, layer)
			if layer == l.layer[e.From]+1 {
				l.size = append(l.size, e.Label)
			} else {
				l.size = append(l.size, Size{})
			}
			l.chains[i] = append(l.chains[i], v)
			l.connect(above, v)
			above = v
		}
		l.connect(above, e.To)
	}
	l.firstOrder()
	return nil
}

func (l *layout) connect(above, below int) {
	l.down[above] = append(l.down[above], below)
	l.up[below] = append(l.up[below], above)
}

// firstOrder fills the layers in the order in which a depth-first search from the first box finds the places. A tree
// then has no crossings.
func (l *layout) firstOrder() {
	l.layers = make([][]int, len(l.labels))
	l.at = make([]int, len(l.size))
	seen := make([]bool, len(l.size))
	for root := range l.boxes {
		if len(l.up[root]) > 0 {
			continue
		}
		stack := []int{root}
		for len(stack) > 0 {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[v] {
				continue
			}
			seen[v] = true
			l.at[v] = len(l.layers[l.layer[v]])
			l.layers[l.layer[v]] = append(l.layers[l.layer[v]], v)
			for i := len(l.down[v]) - 1; i >= 0; i-- {
				stack = append(stack, l.down[v][i])
			}
		}
	}
}
