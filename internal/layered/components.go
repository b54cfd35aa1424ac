package layered

// together moves parts of the graph that no edge connects towards each other:
// otherwise they could be far apart. A part to the right of everything in its layers
// moves to the left, then the same from the other side.
func (l *layout) together() {
	part, parts := l.parts()
	if parts < 2 {
		return
	}
	for _, side := range []int{-1, 1} {
		const unknown = -1
		room := make([]int, parts) // how far each part can move
		outer := make([]bool, parts)
		for p := range room {
			room[p], outer[p] = unknown, true
		}
		for _, layer := range l.layers {
			for i, v := range layer {
				p := part[v]
				if k := i - side; k >= 0 && k < len(layer) && part[layer[k]] != p {
					outer[p] = false
				}
				k := i + side
				if k < 0 || k >= len(layer) || part[layer[k]] == p {
					continue
				}
				slack := 0
				if side < 0 {
					slack = l.x[v] - l.x[layer[k]] - l.distance(layer[k], v)
				} else {
					slack = l.x[layer[k]] - l.x[v] - l.distance(v, layer[k])
				}
				if room[p] == unknown || slack < room[p] {
					room[p] = slack
				}
			}
		}
		for v, p := range part {
			if outer[p] && room[p] > 0 {
				l.x[v] += side * room[p]
			}
		}
	}
}

// parts numbers the parts of the graph that edges connect.
func (l *layout) parts() (part []int, parts int) {
	part = make([]int, len(l.size))
	for v := range part {
		part[v] = -1
	}
	for first := range part {
		if part[first] >= 0 {
			continue
		}
		part[first] = parts
		stack := []int{first}
		for len(stack) > 0 {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, neighbours := range [][]int{l.up[v], l.down[v]} {
				for _, n := range neighbours {
					if part[n] < 0 {
						part[n] = parts
						stack = append(stack, n)
					}
				}
			}
		}
		parts++
	}
	return part, parts
}
