package conversation

import (
	"strconv"

	"github.com/agentarbor/arbor/event"
)

// Reduce returns a graph with one more event; g itself does not change. It returns g for an event that changes nothing:
// an event of a type without nodes, without a runId, or that was applied before.
//
// The new graph keeps the payload of e without a copy, so e must not change any more.
func (g *Graph) Reduce(e *event.Event) *Graph {
	if e == nil || e.Data == nil {
		return g
	}
	in := ofEvent(e)
	return g.reduce(&in)
}

// ReduceJSON is [Graph.Reduce] for the JSON form of an event. It keeps the fields of the payload as they are: null,
// empty or absent. An event need not have an id, a seq or a time. An event that is nested deeper than stored events can
// be changes nothing. If the line is not a JSON object, ReduceJSON returns g and an error.
func (g *Graph) ReduceJSON(line []byte) (*Graph, error) {
	in, err := ofJSON(line)
	if err != nil {
		return g, err
	}
	return g.reduce(&in), nil
}

func (g *Graph) reduce(e *received) *Graph {
	if e.runID == "" || !makesNode(e.kind) && e.kind != event.TypeDiscard && e.kind != event.TypeRelayResolved && !e.void {
		return g
	}
	ri := g.findRun(e.runID)
	if ri != none && e.seq > 0 && e.seq <= g.runAt(ri).seq {
		return g
	}
	c := changeOf(g, ri, e)
	var changed bool
	switch {
	case e.kind == event.TypeDiscard:
		changed = ri != none && c.discard()
	case e.kind == event.TypeRelayResolved:
		changed = c.resolve()
	case e.void:
		changed = ri != none && c.void()
	default:
		changed = c.take()
	}
	if !changed {
		return g
	}
	return c.g
}

// change is the application of an event to a graph.
type change struct {
	g   *Graph // the new graph, which no other goroutine has yet
	e   *received
	run int32 // the event's run, or none if the graph does not have it
}

func changeOf(g *Graph, run int32, e *received) change {
	next := &Graph{nodes: g.nodes, runs: g.runs, live: g.live, waiting: g.waiting, whole: g.whole}
	next.names.Store(g.index())
	return change{next, e, run}
}

// take adds a node for the event, or changes its node.
func (c *change) take() bool {
	e := c.e
	if c.run == none {
		c.run = int32(c.g.runs.n)
		c.g.runs.add(&run{id: e.runID, first: none, last: none, parent: none})
		x := c.g.names.Load()
		x.add(x.runs, e.runID, c.run)
	}
	r := *c.g.runAt(c.run)
	r.seq = max(r.seq, e.seq)
	place, id := c.placeOf(&r)
	if place == none {
		if e.kind == event.TypeHarnessEnd && e.seq > 0 && r.open > 0 {
			c.setRun(c.run, &r)
			c.dropOpen()
			r = *c.g.runAt(c.run)
		}
		c.append(r, id)
		return true
	}
	n := c.g.at(place).copy()
	switch {
	case e.partial && n.complete:
		return false // a late delta
	case !isBlock(n.body.kind) || n.body.kind != e.kind || !e.partial && n.streamed:
		// A complete event replaces the node's payload, but not the decision about a relay.
		if n.body.kind != e.kind {
			n.streamed, n.relay = e.partial, relayOpen
		}
		b := bodyOf(e)
		n.body, n.words = &b, words{}
	default:
		n.extend(e)
	}
	completed := !n.complete && !e.partial
	n.complete = n.complete || !e.partial
	n.streamed = n.streamed || e.partial
	if n.body.event != "" {
		c.g.names.Load().addNode(n, r.id, place)
	}
	c.g.nodes.set(int(place), n)
	if completed {
		r.open--
	}
	c.setRun(c.run, &r)
	if completed {
		if e.seq > 0 && place < c.g.whole {
			place = c.settle(place)
		}
		c.g.whole = max(c.g.whole, place)
	}
	return true
}

// extend appends the text of an event, if it has one, to a block.
func (n *node) extend(e *received) {
	piece := e.piece()
	if piece == nil {
		return
	}
	if n.words.last == nil {
		n.words = n.words.plus((&received{data: n.body.data, fields: n.body.fields}).piece())
	}
	n.words = n.words.plus(piece)
}

// placeOf returns the place of the event's node, or none and the id for a new node. It counts new usage and error
// events in r.
func (c *change) placeOf(r *run) (place int32, id string) {
	e := c.e
	switch e.kind {
	case event.TypeUsage, event.TypeError:
		if e.id != "" {
			x, key := c.g.names.Load(), redeliveryKey(r.id, &body{kind: e.kind, event: e.id})
			place = x.find(x.keys, key, func(place int32) bool {
				n := c.g.at(place)
				return n != nil && n.run == c.run && n.body.kind == e.kind && n.body.event == e.id
			})
			if place != none {
				return place, ""
			}
		}
		if e.kind == event.TypeUsage {
			r.usages++
			id = r.id + ":usage:" + strconv.Itoa(int(r.usages))
			break
		}
		r.errors++
		id = r.id + ":error"
		if r.errors > 1 {
			id += ":" + strconv.Itoa(int(r.errors))
		}
	case event.TypeToolResult:
		if e.id == "" {
			break
		}
		call, id := c.owned(e.id)
		if call == none {
			id = e.id // not a call of this run
		}
		return c.owned(id + ":result")
	default:
		id = e.id
	}
	if id == "" || e.kind == event.TypeUser || e.kind == event.TypeHarnessStart || e.kind == event.TypeHarnessEnd {
		id = r.id + ":" + e.kind
	}
	return c.owned(id)
}

// owned returns the place of a node of the event's run, or none and the id for a new node. If another run has a node
// with the id, the new id begins with the run's id.
func (c *change) owned(id string) (int32, string) {
	for {
		place := c.g.find(id)
		if place == none || c.g.at(place).run == c.run {
			return place, id
		}
		id = c.e.runID + ":" + id
	}
}

// append adds a node at the end of its run.
func (c *change) append(r run, id string) {
	e := c.e
	place := int32(c.g.nodes.n)
	made := &struct { // one allocation for both
		node node
		body body
	}{body: bodyOf(e)}
	n := &made.node
	*n = node{id: id, body: &made.body, run: c.run, prev: r.last, next: none, complete: !e.partial, streamed: e.partial}
	first := r.first == none
	if first {
		r.first = place
	} else {
		c.setNext(r.last, place)
	}
	r.last = place
	if e.partial {
		r.open++
	} else {
		c.g.whole = place
	}
	if first && r.parent == none && e.parentID != "" {
		c.setParent(&r, e.parentID)
	}
	c.setRun(c.run, &r)
	c.g.nodes.add(n)
	c.g.live++
	c.g.names.Load().addNode(n, r.id, place)
	if c.g.waiting > 0 {
		c.arrived(id, place)
		c.arrived(r.id+":"+id, place)
		if first {
			c.arrived(r.id, place)
		}
	}
}

// setParent sets the parent of a run that has just got its first node, or records that the parent is not in the graph
// yet. The id of a parent is that of a node or of a run.
func (c *change) setParent(r *run, parentID string) {
	place := c.named(parentID)
	if place == none {
		if pi := c.g.findRun(parentID); pi != none {
			place = c.g.runAt(pi).last
		}
	}
	if place == none {
		if r.waitsFor == "" {
			c.g.waiting++
		}
		r.waitsFor = parentID
		x := c.g.names.Load()
		x.add(x.waiting, parentID, c.run)
		return
	}
	// The run has no other node yet, so this cannot close a circle.
	c.link(c.run, r, place)
}

// named returns the place of the node that a parentId means, or none. It is the node with that id or, for an id of the
// form RUN:ID, the node ID of that run. The second form is needed if several runs have a node with the same id, such as
// the results of a call in several forks.
func (c *change) named(id string) int32 {
	place := c.g.find(id)
	for i := 0; place == none && i < len(id); i++ {
		if id[i] != ':' {
			continue
		}
		if ri := c.g.findRun(id[:i]); ri != none {
			if place = c.g.find(id[i+1:]); place != none && c.g.at(place).run != ri {
				place = none
			}
		}
	}
	return place
}

// link makes a node the parent of a run.
func (c *change) link(ri int32, r *run, place int32) {
	parent := c.g.at(place).copy()
	parent.spawned = &branch{ri, parent.spawned}
	c.g.nodes.set(int(place), parent)
	r.parent = place
	if r.waitsFor != "" {
		r.waitsFor = ""
		c.g.waiting--
	}
}

// arrived sets the parent of the runs that wait for an id. A run whose parent would close a circle never gets one.
func (c *change) arrived(id string, place int32) {
	x := c.g.names.Load()
	for _, wi := range x.all(x.waiting, id) {
		if int(wi) >= c.g.runs.n || c.g.runAt(wi).waitsFor != id {
			continue
		}
		w := *c.g.runAt(wi)
		if c.below(place, wi) {
			w.waitsFor = ""
			c.g.waiting--
		} else {
			c.link(wi, &w, place)
		}
		c.setRun(wi, &w)
	}
}

// below reports whether a node belongs to a run or is below one of its nodes, so that an edge from the node to the run
// would close a circle.
func (c *change) below(place, ri int32) bool {
	for ; place != none; place = c.g.runAt(c.g.at(place).run).parent {
		if c.g.at(place).run == ri {
			return true
		}
	}
	return false
}

// resolve sets the state of a relay.
func (c *change) resolve() bool {
	place, _ := c.owned(c.e.relayID)
	if place == none {
		place = c.g.find(c.e.relayID) // a relay of another run
	}
	if place == none || c.g.at(place).body.kind != event.TypeRelay {
		return false
	}
	n := c.g.at(place).copy()
	n.relay = relayDenied
	if c.e.approved {
		n.relay = relayApproved
	}
	c.g.nodes.set(int(place), n)
	c.noteSeq()
	return true
}
