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

// A streamed block first has the place of its first delta. The log contains no deltas, and a graph of the log has only
// stored events, in their order. The rules in this file make the graph of a client equal to that of the log. They apply
// only to events with a seq, because only those come from a log.

// settle moves a block to the end of its run and of the list of nodes after its stored event has arrived. It is called
// if other nodes have become complete since the first delta, because these come first in the log. It returns the node's
// new place.
func (c *change) settle(place int32) int32 {
	n := c.g.at(place).copy()
	r := *c.g.runAt(n.run)
	end := int32(c.g.nodes.n)
	c.unlink(place, &r)
	n.prev = r.last
	n.next = none
	c.g.nodes.set(int(place), nil)
	c.g.nodes.add(n)
	if n.prev == none {
		r.first = end
	} else {
		c.setNext(n.prev, end)
	}
	r.last = end
	c.setRun(n.run, &r)
	for b := n.spawned; b != nil; b = b.rest {
		child := *c.g.runAt(b.run)
		child.parent = end
		c.setRun(b.run, &child)
	}
	c.g.names.Load().addNode(n, r.id, end)
	return end
}

// dropOpen removes the blocks of a run whose stored events have not arrived before the run's end. The turn was
// interrupted, so that no event discarded them.
func (c *change) dropOpen() {
	for place := c.g.runAt(c.run).last; place != none && c.g.runAt(c.run).open > 0; {
		n := c.g.at(place)
		if !n.complete {
			c.drop(place)
		}
		place = n.prev
	}
}

// void removes these blocks when a process adopts the turn. The process that streamed them died, and the new one
// streams other blocks with other ids.
func (c *change) void() bool {
	if c.e.seq <= 0 || c.g.runAt(c.run).open == 0 {
		return false
	}
	c.dropOpen()
	c.noteSeq()
	return true
}
