package conversation

// discard drops the nodes of a run with the ids that a discard names: the block,
// or the call and its result. Another run's nodes stay.
func (g *Graph) discard(ri int32, e *received) bool {
	changed := false
	runID := g.runAt(ri).id
	for _, id := range e.ids {
		place, id := g.owned(ri, runID, id)
		result, _ := g.owned(ri, runID, id+":result")
		for _, place := range []int32{place, result} {
			if place != none {
				g.drop(place)
				changed = true
			}
		}
	}
	g.saw(runID, e.seq)
	return changed
}

// drop takes a node out: what came after it follows what came before it. Runs
// that hang on it hang on its parent then, or on nothing if it has none.
func (g *Graph) drop(place int32) {
	n, following := g.at(place), g.nextOf(place)
	r := *g.runAt(n.run)
	if !n.complete {
		r.open--
	}
	if n.prev == none {
		r.first = following
	} else {
		g.setNext(n.prev, following)
	}
	if following == none {
		r.last = n.prev
	} else {
		next := g.at(following).copy()
		next.prev = n.prev
		g.nodes.set(int(following), next)
	}
	g.setRun(n.run, &r)
	parent := n.prev
	if parent == none {
		parent = r.parent
	}
	g.nodes.set(int(place), nil)
	g.live--
	if n.spawned == nil {
		return
	}
	heir := &node{}
	if parent != none {
		heir = g.at(parent).copy()
	}
	for b := n.spawned; b != nil; b = b.rest {
		child := *g.runAt(b.run)
		child.parent = parent
		g.setRun(b.run, &child)
		heir.spawned = &branch{b.run, heir.spawned}
	}
	if parent != none {
		g.nodes.set(int(parent), heir)
	}
}

// saw notes the last seq of a run.
func (g *Graph) saw(runID string, seq int64) {
	ri := g.findRun(runID)
	if ri == none {
		return
	}
	r := *g.runAt(ri)
	r.seq = max(r.seq, seq)
	g.setRun(ri, &r)
}
