package layered

import "slices"

// reorder sorts the places of each layer by the middle of their neighbours, alternately in the layers above and below,
// and keeps the order with the fewest crossings.
func (l *layout) reorder() {
	best, fewest := l.order(), l.crossings()
	for i, stale := 0, 0; i < l.rounds(24) && stale < 4 && fewest > 0; i++ {
		if i%2 == 0 {
			for layer := 1; layer < len(l.layers); layer++ {
				l.sort(layer, l.up)
			}
		} else {
			for layer := len(l.layers) - 2; layer >= 0; layer-- {
				l.sort(layer, l.down)
			}
		}
		stale++
		if n := l.crossings(); n < fewest {
			best, fewest, stale = l.order(), n, 0
		}
	}
	for i, layer := range best {
		l.layers[i] = layer
		for k, v := range layer {
			l.at[v] = k
		}
	}
}

// rounds limits the number of rounds so that large graphs do not take long.
func (l *layout) rounds(most int) int { return max(2, min(most, 400_000/(len(l.size)+1))) }

func (l *layout) order() [][]int {
	order := make([][]int, len(l.layers))
	for i, layer := range l.layers {
		order[i] = slices.Clone(layer)
	}
	return order
}

// sort orders one layer. Places without neighbours keep their rank.
func (l *layout) sort(layer int, neighbours [][]int) {
	places := l.layers[layer]
	key := make(map[int]int, len(places))
	for _, v := range places {
		if len(neighbours[v]) == 0 {
			key[v] = 1024 * l.at[v]
			continue
		}
		sum := 0
		for _, n := range neighbours[v] {
			sum += l.at[n]
		}
		key[v] = 1024 * sum / len(neighbours[v])
	}
	slices.SortStableFunc(places, func(a, b int) int { return key[a] - key[b] })
	for i, v := range places {
		l.at[v] = i
	}
}

// crossings counts the pairs of edges that cross. Between two layers, with edges sorted by their upper ends, these are
// the inversions among their lower ends.
func (l *layout) crossings() int {
	total := 0
	for i := range len(l.layers) - 1 {
		tree := make([]int, len(l.layers[i+1])+1) // a Fenwick tree of the lower ends so far
		seen := 0
		for _, v := range l.layers[i] {
			for _, to := range l.down[v] {
				notAbove := 0
				for k := l.at[to] + 1; k > 0; k -= k & -k {
					notAbove += tree[k]
				}
				total += seen - notAbove
			}
			for _, to := range l.down[v] {
				seen++
				for k := l.at[to] + 1; k < len(tree); k += k & -k {
					tree[k]++
				}
			}
		}
	}
	return total
}
