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
	next := g.edit()
	var changed bool
	switch {
	case e.kind == event.TypeDiscard:
		changed = ri != none && next.discard(ri, e)
	case e.kind == event.TypeRelayResolved:
		changed = next.resolve(e)
	case e.void:
		changed = ri != none && next.void(ri, e)
	default:
		changed = next.take(ri, e)
	}
	if !changed {
		return g
	}
	return next
}

// The methods below change a graph that nobody else has seen.

// take adds a node for an event, or changes the one that is there.
func (g *Graph) take(ri int32, e *received) bool {
	if ri == none {
		ri = int32(g.runs.n)
		g.runs.add(&run{id: e.runID, first: none, last: none, parent: none})
		x := g.names.Load()
		x.add(&x.runs, e.runID, ri)
	}
	g.makeLatest(ri)
	r := *g.runAt(ri)
	r.seq = max(r.seq, e.seq)
	place, id := g.placeOf(ri, &r, e)
	if place == none {
		if e.kind == KindHarnessEnd && e.seq > 0 && r.open > 0 {
			g.setRun(ri, &r)
			g.dropOpen(ri)
			r = *g.runAt(ri)
		}
		g.append(ri, r, id, e)
		return true
	}
	n := g.at(place).copy()
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
		x := g.names.Load()
		x.add(&x.keys, redeliveryKey(r.id, n.body), place)
	}
	g.nodes.set(int(place), n)
	if completed {
		r.open--
	}
	g.setRun(ri, &r)
	if completed {
		if e.seq > 0 && place < g.whole {
			place = g.settle(place)
		}
		g.whole = max(g.whole, place)
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
func (g *Graph) placeOf(ri int32, r *run, e *received) (place int32, id string) {
	switch e.kind {
	case KindUsage, KindError:
		if e.id != "" {
			x, key := g.names.Load(), redeliveryKey(r.id, &body{kind: e.kind, event: e.id})
			place = x.find(&x.keys, key, func(place int32) bool {
				n := g.at(place)
				return n != nil && n.run == ri && n.body.kind == e.kind && n.body.event == e.id
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
		call, id := g.owned(ri, r.id, e.id)
		if call == none {
			id = e.id // not a call of this run
		}
		return g.owned(ri, r.id, id+":result")
	default:
		id = e.id
	}
	if id == "" || e.kind == KindUser || e.kind == KindHarnessStart || e.kind == KindHarnessEnd {
		id = r.id + ":" + string(e.kind)
	}
	return g.owned(ri, r.id, id)
}

// owned returns the place of a run's node, or none and the id that the node
// would have: an id that another run has taken gets the run's id in front.
func (g *Graph) owned(ri int32, runID, id string) (int32, string) {
	for {
		place := g.find(id)
		if place == none || g.at(place).run == ri {
			return place, id
		}
		id = runID + ":" + id
	}
}

// append adds a node at the end of its run.
func (g *Graph) append(ri int32, r run, id string, e *received) {
	place := int32(g.nodes.n)
	made := &struct { // both in one piece of memory
		node node
		body body
	}{body: bodyOf(e)}
	n := &made.node
	*n = node{id: id, body: &made.body, run: ri, prev: r.last, next: none, complete: !e.partial, streamed: e.partial}
	first := r.first == none
	if first {
		r.first = place
	} else {
		g.setNext(r.last, place)
	}
	r.last = place
	if e.partial {
		r.open++
	} else {
		g.whole = place
	}
	if first && r.parent == none && e.parentID != "" {
		g.hangOn(ri, &r, e.parentID)
	}
	g.setRun(ri, &r)
	g.nodes.add(n)
	g.live++
	x := g.names.Load()
	x.add(&x.nodes, id, place)
	if n.body.event != "" {
		x.add(&x.keys, redeliveryKey(r.id, n.body), place)
	}
	if g.waiting > 0 {
		g.arrived(id, place)
		g.arrived(r.id+":"+id, place)
		if first {
			g.arrived(r.id, place)
		}
	}
}

// hangOn makes the cross-run edge of a run that has just got its first node, or
// notes that its parent is not there yet. A parent's id can be a node's or a
// run's.
func (g *Graph) hangOn(ri int32, r *run, parentID string) {
	place := g.named(parentID)
	if place == none {
		if pi := g.findRun(parentID); pi != none {
			place = g.runAt(pi).last
		}
	}
	if place == none {
		if r.waitsFor == "" {
			g.waiting++
		}
		r.waitsFor = parentID
		x := g.names.Load()
		x.add(&x.waiting, parentID, ri)
		return
	}
	// A run without nodes has nothing below it: this cannot close a circle.
	g.link(ri, r, place)
}

// named returns the node that a parentId means, or none: the one of that id, or
// else, as RUN:ID, that run's node ID. So an event can say which node it means
// where several runs have one of the id, as a call has results in several forks.
func (g *Graph) named(id string) int32 {
	place := g.find(id)
	for i := 0; place == none && i < len(id); i++ {
		if id[i] != ':' {
			continue
		}
		if ri := g.findRun(id[:i]); ri != none {
			if place = g.find(id[i+1:]); place != none && g.at(place).run != ri {
				place = none
			}
		}
	}
	return place
}

// link hangs a run on a node.
func (g *Graph) link(ri int32, r *run, place int32) {
	parent := g.at(place).copy()
	parent.spawned = &branch{ri, parent.spawned}
	g.nodes.set(int(place), parent)
	r.parent = place
	if r.waitsFor != "" {
		r.waitsFor = ""
		g.waiting--
	}
}

// arrived completes the edges of the runs that wait for an id. An edge that would
// close a cycle is left out, and not added later.
func (g *Graph) arrived(id string, place int32) {
	x := g.names.Load()
	for _, wi := range x.all(&x.waiting, id) {
		if int(wi) >= g.runs.n || g.runAt(wi).waitsFor != id {
			continue
		}
		w := *g.runAt(wi)
		if g.below(place, wi) {
			w.waitsFor = ""
			g.waiting--
		} else {
			g.link(wi, &w, place)
		}
		g.setRun(wi, &w)
	}
}

// below reports whether a node is one of a run's, or hangs on one of them: an
// edge from it to the run would close a circle. It walks from run to run, which
// costs something only where a parent came late.
func (g *Graph) below(place, ri int32) bool {
	for ; place != none; place = g.runAt(g.at(place).run).parent {
		if g.at(place).run == ri {
			return true
		}
	}
	return false
}

// resolve sets the state of a relay.
func (g *Graph) resolve(e *received) bool {
	place, _ := g.owned(g.findRun(e.runID), e.runID, e.relayID)
	if place == none {
		place = g.find(e.relayID) // another run's
	}
	if place == none || g.at(place).body.kind != KindRelay {
		return false
	}
	n := g.at(place).copy()
	n.relay = relayDenied
	if e.approved {
		n.relay = relayApproved
	}
	g.nodes.set(int(place), n)
	g.saw(e.runID, e.seq)
	return true
}
