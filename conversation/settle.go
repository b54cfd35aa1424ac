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
func (g *Graph) settle(place int32) int32 {
	n := g.at(place).copy()
	r := *g.runAt(n.run)
	end := int32(g.nodes.n)
	if following := g.nextOf(place); following != none {
		// Out of the chain, and behind its last node.
		if n.prev == none {
			r.first = following
		} else {
			g.setNext(n.prev, following)
		}
		next := g.at(following).copy()
		next.prev = n.prev
		g.nodes.set(int(following), next)
		n.prev = r.last
	}
	n.next = none
	g.nodes.set(int(place), nil)
	g.nodes.add(n)
	if n.prev == none {
		r.first = end
	} else {
		g.setNext(n.prev, end)
	}
	r.last = end
	g.setRun(n.run, &r)
	for b := n.spawned; b != nil; b = b.rest {
		child := *g.runAt(b.run)
		child.parent = end
		g.setRun(b.run, &child)
	}
	x := g.names.Load()
	x.add(&x.nodes, n.id, end)
	if n.body.event != "" {
		x.add(&x.keys, redeliveryKey(r.id, n.body), end)
	}
	return end
}

// dropOpen takes out the blocks of a run whose stored events have not come, when
// the run's end has: nobody was there to discard them, because the turn was cut
// off, and nothing completes them any more.
func (g *Graph) dropOpen(ri int32) {
	for place := g.runAt(ri).last; place != none && g.runAt(ri).open > 0; {
		n := g.at(place)
		if !n.complete {
			g.drop(place)
		}
		place = n.prev
	}
}

// void does the same when a run is taken over, because the process has gone that has shown its blocks: who goes on
// with the run begins them anew, with other ids.
func (g *Graph) void(ri int32, e *received) bool {
	if e.seq <= 0 || g.runAt(ri).open == 0 {
		return false
	}
	g.dropOpen(ri)
	g.saw(g.runAt(ri).id, e.seq)
	return true
}
