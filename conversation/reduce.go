package conversation

import (
	"strconv"

	"github.com/agentarbor/arbor/event"
)

// Reduce returns the graph with an event. The graph itself stays as it was. An
// event that changes nothing returns the graph itself: one of a type that makes
// no node, one without a runId, or one that was seen before.
//
// The graph keeps e's payload and does not copy it: after delivery an event must
// not change.
func (g *Graph) Reduce(e *event.Event) *Graph {
	if e == nil || e.Data == nil {
		return g
	}
	in := ofEvent(e)
	return g.reduce(&in)
}

// ReduceJSON is Reduce for the JSON form of an event. It keeps the payload's
// fields as they were received: what is null, empty or absent stays so. Events
// may have no id, seq and time. One that is nested deeper than a stored event can
// be changes nothing. The error says that the line is not a JSON object; the
// graph is then returned unchanged.
func (g *Graph) ReduceJSON(line []byte) (*Graph, error) {
	in, err := ofJSON(line)
	if err != nil {
		return g, err
	}
	return g.reduce(&in), nil
}

func (g *Graph) reduce(e *received) *Graph {
	if e.runID == "" || !e.kind.makesNode() && e.kind != event.TypeDiscard && e.kind != event.TypeRelayResolved && !e.void {
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

// A change makes one graph of another by an event.
type change struct {
	g   *Graph // nobody else has seen it
	e   *received
	run int32 // the event's; none as long as the graph does not have it
}

func changeOf(g *Graph, run int32, e *received) change {
	next := &Graph{nodes: g.nodes, runs: g.runs, live: g.live, waiting: g.waiting, whole: g.whole, latest: g.latest, latestRun: g.latestRun}
	next.names.Store(g.index())
	return change{next, e, run}
}

// take adds a node for an event, or changes the one that is there.
func (c *change) take() bool {
	e := c.e
	if c.run == none {
		c.run = int32(c.g.runs.n)
		c.g.runs.add(&run{id: e.runID, first: none, last: none, parent: none})
		x := c.g.names.Load()
		x.add(&x.runs, e.runID, c.run)
	}
	c.makeLatest(c.run)
	r := *c.g.runAt(c.run)
	r.seq = max(r.seq, e.seq)
	place, id := c.placeOf(&r)
	if place == none {
		if e.kind == KindHarnessEnd && e.seq > 0 && r.open > 0 {
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
		return false // a delta that comes late
	case !n.body.kind.isBlock() || n.body.kind != e.kind || !e.partial && n.streamed:
		// Something whole replaces what was there. It does not undo a decision
		// about a relay.
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

// extend appends the words of an event, if it has some, to a block.
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

// placeOf returns the place of the node that an event is about, or none and the
// id of a new one. It counts new usage and error events in r.
func (c *change) placeOf(r *run) (place int32, id string) {
	e := c.e
	switch e.kind {
	case KindUsage, KindError:
		if e.id != "" {
			x, key := c.g.names.Load(), redeliveryKey(r.id, &body{kind: e.kind, event: e.id})
			place = x.find(&x.keys, key, func(place int32) bool {
				n := c.g.at(place)
				return n != nil && n.run == c.run && n.body.kind == e.kind && n.body.event == e.id
			})
			if place != none {
				return place, ""
			}
		}
		if e.kind == KindUsage {
			r.usages++
			id = r.id + ":usage:" + strconv.Itoa(int(r.usages))
			break
		}
		r.errors++
		id = r.id + ":error"
		if r.errors > 1 {
			id += ":" + strconv.Itoa(int(r.errors))
		}
	case KindToolResult:
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
	if id == "" || e.kind == KindUser || e.kind == KindHarnessStart || e.kind == KindHarnessEnd {
		id = r.id + ":" + string(e.kind)
	}
	return c.owned(id)
}

// owned returns the place of a run's node, or none and the id that the node
// would have: an id that another run has taken gets the run's id in front.
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
	made := &struct { // both in one piece of memory
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
		c.hangOn(&r, e.parentID)
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

// hangOn makes the cross-run edge of a run that has just got its first node, or
// notes that its parent is not there yet. A parent's id can be a node's or a
// run's.
func (c *change) hangOn(r *run, parentID string) {
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
		x.add(&x.waiting, parentID, c.run)
		return
	}
	// A run without nodes has nothing below it: this cannot close a circle.
	c.link(c.run, r, place)
}

// named returns the node that a parentId means, or none: the one of that id, or
// else, as RUN:ID, that run's node ID. So an event can say which node it means
// where several runs have one of the id, as a call has results in several forks.
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

// link hangs a run on a node.
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

// arrived completes the edges of the runs that wait for an id. An edge that would
// close a cycle is left out, and not added later.
func (c *change) arrived(id string, place int32) {
	x := c.g.names.Load()
	for _, wi := range x.all(&x.waiting, id) {
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

// below reports whether a node is one of a run's, or hangs on one of them: an
// edge from it to the run would close a circle. It walks from run to run, which
// costs something only where a parent came late.
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
		place = c.g.find(c.e.relayID) // another run's
	}
	if place == none || c.g.at(place).body.kind != KindRelay {
		return false
	}
	n := c.g.at(place).copy()
	n.relay = relayDenied
	if c.e.approved {
		n.relay = relayApproved
	}
	c.g.nodes.set(int(place), n)
	c.saw()
	return true
}
