package conversation

// What was streamed has a place for the time being: that of its first delta. The
// log knows no deltas, and a graph that is made from the log has only what was
// stored, in the order in which it was stored. The rules in this file make the
// graph of a client equal to it. They look at events with a seq alone, because
// only those come from a log.

// settle moves a block to the end of its run and of the list of nodes, when the
// stored event for its deltas has arrived. It is called if other nodes have
// become whole since the first delta: they come before it in the log. It returns
// the node's new place.
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

// dropOpen takes out the blocks of a run whose stored events have not come, when
// the run's end has: nobody was there to discard them, because the turn was cut
// off, and nothing completes them any more.
func (c *change) dropOpen() {
	for place := c.g.runAt(c.run).last; place != none && c.g.runAt(c.run).open > 0; {
		n := c.g.at(place)
		if !n.complete {
			c.drop(place)
		}
		place = n.prev
	}
}

// void does the same when a turn is adopted, because the process that showed the blocks is gone: the process that
// continues the run begins them anew, with other ids.
func (c *change) void() bool {
	if c.e.seq <= 0 || c.g.runAt(c.run).open == 0 {
		return false
	}
	c.dropOpen()
	c.saw()
	return true
}
