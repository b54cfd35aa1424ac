package layered

// together moves the connected components of the graph towards each other, because they could otherwise be far apart.
// It moves each component that is at the right end of all its layers to the left, then repeats this from the other
// side.
func (l *layout) together() {
	part, parts := l.parts()
	if parts < 2 {
		return
	}
	for _, side := range []int{-1, 1} {
		const unknown = -1
		room := make([]int, parts) // how far each component can move
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

// parts returns the number of the connected component of each place, and the number of components.
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
