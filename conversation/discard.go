package conversation

// discard drops the nodes of a run with the ids that a discard names: the block,
// or the call and its result. Another run's nodes stay.
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
	c.saw()
	return changed
}

// drop takes a node out: what came after it follows what came before it. Runs
// that hang on it hang on its parent then, or on nothing if it has none.
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

// unlink closes the gap in a run where a node was.
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

// saw notes the event's seq in its run.
func (c *change) saw() {
	if c.run == none {
		return
	}
	r := *c.g.runAt(c.run)
	r.seq = max(r.seq, c.e.seq)
	c.setRun(c.run, &r)
}
