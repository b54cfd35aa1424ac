package conversation

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
