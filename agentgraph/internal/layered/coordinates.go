package layered

import "slices"

// coordinates computes the middles of the places: each as close as possible to the middle of its neighbours, while its
// layer keeps its order and distances.
func (l *layout) coordinates() {
	l.x = make([]int, len(l.size))
	for _, layer := range l.layers {
		x := 0
		for i, v := range layer {
			if i > 0 {
				x += l.distance(layer[i-1], v)
			}
			l.x[v] = x
		}
		for _, v := range layer {
			l.x[v] -= x / 2
		}
	}
	both := make([][]int, len(l.size))
	for v := range both {
		both[v] = slices.Concat(l.up[v], l.down[v])
	}
	n := l.rounds(40)
	for i := range n {
		neighbours := both
		if i < n-2 {
			neighbours = l.up
		}
		for layer := range l.layers {
			l.shift(layer, neighbours)
		}
		if i < n-2 {
			neighbours = l.down
		}
		for layer := len(l.layers) - 1; layer >= 0; layer-- {
			l.shift(layer, neighbours)
		}
	}
}

// distance returns the smallest distance between the middles of two neighbouring places in a layer.
func (l *layout) distance(left, right int) int {
	gap := gapEdges
	if left < len(l.boxes) && right < len(l.boxes) {
		gap = gapBoxes
	}
	return (l.size[left].Width+1)/2 + (l.size[right].Width+1)/2 + gap
}

// weight returns how important it is that two places are on a vertical line. Long edges should be straight.
func (l *layout) weight(a, b int) int {
	switch {
	case a >= len(l.boxes) && b >= len(l.boxes):
		return 8
	case a >= len(l.boxes) || b >= len(l.boxes):
		return 2
	}
	return 1
}

// shift moves the places of a layer to their preferred positions by least squares. It pools neighbours that would
// overlap into blocks, which move as one (isotonic regression, the "pool adjacent violators" algorithm).
func (l *layout) shift(layer int, neighbours [][]int) {
	type block struct{ sum, weight, count int }
	at := func(b block) int { return floorDiv(b.sum, b.weight) }
	var blocks []block
	offset := 0 // of a place from the first one, at the smallest distances
	for i, v := range l.layers[layer] {
		if i > 0 {
			offset += l.distance(l.layers[layer][i-1], v)
		}
		b := block{count: 1}
		for _, n := range neighbours[v] {
			w := l.weight(v, n)
			b.sum += w * (l.x[n] - offset)
			b.weight += w
		}
		if b.weight == 0 {
			b.sum, b.weight = l.x[v]-offset, 1
		}
		for len(blocks) > 0 && at(blocks[len(blocks)-1]) > at(b) {
			last := blocks[len(blocks)-1]
			blocks = blocks[:len(blocks)-1]
			b = block{last.sum + b.sum, last.weight + b.weight, last.count + b.count}
		}
		blocks = append(blocks, b)
	}
	offset = 0
	i := 0
	for _, b := range blocks {
		for range b.count {
			v := l.layers[layer][i]
			if i > 0 {
				offset += l.distance(l.layers[layer][i-1], v)
			}
			l.x[v] = at(b) + offset
			i++
		}
	}
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b != 0 && a < 0 {
		q--
	}
	return q
}

// drawing computes the heights of layers and the routes of edges.
func (l *layout) drawing() Drawing {
	d := Drawing{Boxes: make([]Point, len(l.boxes)), Edges: make([]Route, len(l.edges))}
	if len(l.boxes) == 0 {
		return d
	}
	left, right := l.x[0], l.x[0]
	for v, s := range l.size {
		left, right = min(left, l.x[v]-(s.Width+1)/2), max(right, l.x[v]+(s.Width+1)/2)
	}
	for v := range l.x {
		l.x[v] -= left
	}
	d.Size.Width = right - left

	top := make([]int, len(l.layers))
	bottom := make([]int, len(l.layers))
	y := 0
	for i, layer := range l.layers {
		if i > 0 {
			if l.labels[i] || l.labels[i-1] {
				y += gapLabels
			} else {
				y += gapLayers
			}
			// Edges that lead far to a side need height to be distinguishable.
			far := 0
			for _, v := range layer {
				for _, above := range l.up[v] {
					far = max(far, l.x[v]-l.x[above], l.x[above]-l.x[v])
				}
			}
			y += min(far/12, gapLayers)
		}
		top[i] = y
		for _, v := range layer {
			bottom[i] = max(bottom[i], y+l.size[v].Height)
		}
		bottom[i] = max(bottom[i], y)
		y = bottom[i]
	}
	d.Size.Height = y
	corner := func(v int) Point {
		i := l.layer[v]
		return Point{l.x[v] - l.size[v].Width/2, top[i] + (bottom[i]-top[i]-l.size[v].Height)/2}
	}
	for v := range l.boxes {
		d.Boxes[v] = corner(v)
	}

	starts, ends := l.ports()
	for i, e := range l.edges {
		from, to := d.Boxes[e.From], d.Boxes[e.To]
		points := []Point{{starts[i], from.Y + l.boxes[e.From].Height}, {starts[i], bottom[l.layer[e.From]]}}
		for _, v := range l.chains[i] {
			points = append(points, Point{l.x[v], top[l.layer[v]]}, Point{l.x[v], bottom[l.layer[v]]})
		}
		d.Edges[i].Points = append(points, Point{ends[i], top[l.layer[e.To]]}, Point{ends[i], to.Y})
		if e.Label != (Size{}) {
			d.Edges[i].Label = corner(l.chains[i][0])
		}
	}
	return d
}

// ports returns where each edge leaves its box and where it enters the other box. The edges of a box are side by side,
// ordered by the position of their other ends.
func (l *layout) ports() (starts, ends []int) {
	n := len(l.edges)
	starts, ends = make([]int, n), make([]int, n)
	out, in := make([][]int, len(l.boxes)), make([][]int, len(l.boxes))
	for i, e := range l.edges {
		out[e.From] = append(out[e.From], i)
		in[e.To] = append(in[e.To], i)
	}
	spread := func(ports []int, v int, edges []int, other func(edge int) int) {
		slices.SortStableFunc(edges, func(a, b int) int { return l.x[other(a)] - l.x[other(b)] })
		for k, edge := range edges {
			ports[edge] = l.x[v] - l.size[v].Width/2 + l.size[v].Width*(k+1)/(len(edges)+1)
		}
	}
	for v := range l.boxes {
		spread(starts, v, out[v], func(i int) int {
			if c := l.chains[i]; len(c) > 0 {
				return c[0]
			}
			return l.edges[i].To
		})
		spread(ends, v, in[v], func(i int) int {
			if c := l.chains[i]; len(c) > 0 {
				return c[len(c)-1]
			}
			return l.edges[i].From
		})
	}
	return starts, ends
}
