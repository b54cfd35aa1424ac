package conversation

// discard removes the nodes of a run with the ids in a discard: a block, or a call and its result. It leaves the nodes
// of other runs.
func (c *change) discard() bool {
	changed := false
	for _, id := range c.e.ids {
		place, id := c.owned(id)
		result, _ := c.owned(id + ":result")
		for _, place := range []int32{place, result} {
			if place != none {
				c.drop(place)
				changed = true
			}
		}
	}
	c.noteSeq()
	return changed
}

// drop removes a node and connects its neighbors. Runs whose parent it was get its parent, if it has one.
func (c *change) drop(place int32) {
	n := c.g.at(place)
	r := *c.g.runAt(n.run)
	if !n.complete {
		r.open--
	}
	c.unlink(place, &r)
	c.setRun(n.run, &r)
	parent := n.prev
	if parent == none {
		parent = r.parent
	}
	c.g.nodes.set(int(place), nil)
	c.g.live--
	if n.spawned == nil {
		return
	}
	heir := &node{}
	if parent != none {
		heir = c.g.at(parent).copy()
	}
	for b := n.spawned; b != nil; b = b.rest {
		child := *c.g.runAt(b.run)
		child.parent = parent
		c.setRun(b.run, &child)
		heir.spawned = &branch{b.run, heir.spawned}
	}
	if parent != none {
		c.g.nodes.set(int(parent), heir)
	}
}

// unlink connects the neighbors of a node in its run.
func (c *change) unlink(place int32, r *run) {
	n, following := c.g.at(place), c.g.nextOf(place)
	if n.prev == none {
		r.first = following
	} else {
		c.setNext(n.prev, following)
	}
	if following == none {
		r.last = n.prev
		return
	}
	next := c.g.at(following).copy()
	next.prev = n.prev
	c.g.nodes.set(int(following), next)
}

// noteSeq records the event's seq in its run.
func (c *change) noteSeq() {
	if c.run == none {
		return
	}
	r := *c.g.runAt(c.run)
	r.seq = max(r.seq, c.e.seq)
	c.setRun(c.run, &r)
}
