package conversation

import (
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/event"
)

// none is the place of a node or a run that does not exist.
const none int32 = -1

// Graph is an immutable graph of events. The zero value is the empty graph, and [Graph.Reduce] returns a larger one.
// Edges lead from parents to children and never form a circle. A Graph is safe for concurrent use.
type Graph struct {
	nodes   vector[node] // nil where a node was discarded
	runs    vector[run]
	live    int   // nodes that are not nil
	waiting int   // the number of runs whose parent is not in the graph yet
	whole   int32 // the last place at which a node became complete

	names atomic.Pointer[index]
}

// New returns the empty graph.
func New() *Graph { return &Graph{} }

// node is a node and its links. Except for next it is immutable: a change makes a copy. The parts that seldom change
// are in body.
type node struct {
	id       string
	body     *body
	words    words // the content of a block of several deltas, in the place of the body's
	run      int32
	prev     int32   // the node before it in the run, or none
	next     int32   // a hint that is set once, see Graph.nextOf
	spawned  *branch // the runs whose parent is this node, the latest first
	complete bool    // a complete event has arrived, not only deltas
	streamed bool    // deltas have arrived
	relay    relayState
}

// body is the part of a node that comes from one event.
type body struct {
	kind        string
	agent, path string
	seq         int64
	time        time.Time
	event       string // the event's id, for usage and errors, whose nodes have other ids
	data        event.Data
	fields      []field
}

type relayState uint8

const (
	relayOpen relayState = iota
	relayApproved
	relayDenied
)

// branch is a list of runs.
type branch struct {
	run  int32
	rest *branch
}

// run is the reducer's record of a run. It is immutable.
type run struct {
	id          string
	first, last int32  // nodes; none if all were discarded
	parent      int32  // the node that is the run's parent, or none
	waitsFor    string // the id of a parent that is not in the graph yet, or ""
	open        int32  // the number of nodes that have only deltas
	seq         int64  // of the run's last event
	usages      int32
	errors      int32
}

func bodyOf(e *received) body {
	b := body{kind: e.kind, agent: e.agent, path: e.path, seq: e.seq, time: e.time, data: e.data, fields: e.fields}
	if e.kind == event.TypeUsage || e.kind == event.TypeError {
		b.event = e.id
	}
	return b
}

// index returns the graph's index. It builds a new index if most entries of the old one belong to other graphs.
func (g *Graph) index() *index {
	x := g.names.Load()
	if x != nil && x.size.Load() <= int64(4*(g.live+g.runs.n)+64) {
		return x
	}
	fresh := newIndex()
	for i := range int32(g.runs.n) {
		r := g.runAt(i)
		fresh.add(fresh.runs, r.id, i)
		if r.waitsFor != "" {
			fresh.add(fresh.waiting, r.waitsFor, i)
		}
		for place := r.first; place != none; {
			n := g.nodes.get(int(place))
			fresh.addNode(n, r.id, place)
			place = g.nextOf(place)
		}
	}
	// If another goroutine was faster, use its index.
	if !g.names.CompareAndSwap(x, fresh) {
		return g.names.Load()
	}
	return fresh
}

// find returns the place of a node, or none.
func (g *Graph) find(id string) int32 {
	x := g.index()
	return x.find(x.nodes, id, func(place int32) bool {
		n := g.at(place)
		return n != nil && n.id == id
	})
}

// at returns the node at a place, or nil.
func (g *Graph) at(place int32) *node {
	if place < 0 || int(place) >= g.nodes.n {
		return nil
	}
	return g.nodes.get(int(place))
}

// runAt returns the run at a place.
func (g *Graph) runAt(place int32) *run { return g.runs.get(int(place)) }

func (c *change) setRun(place int32, r *run) { c.g.runs.set(int(place), r) }

// findRun returns the place of a run, or none.
func (g *Graph) findRun(id string) int32 {
	x := g.index()
	return x.find(x.runs, id, func(place int32) bool {
		return int(place) < g.runs.n && g.runAt(place).id == id
	})
}

// copy returns a node that can be changed.
func (n *node) copy() *node {
	return &node{id: n.id, body: n.body, words: n.words, run: n.run, prev: n.prev, next: atomic.LoadInt32(&n.next),
		spawned: n.spawned, complete: n.complete, streamed: n.streamed, relay: n.relay}
}

// nextOf returns the place of the node after a node in its run, or none. Graphs share nodes, and the first graph that
// appends a node writes its place into next. In another graph that place may be unused or have a node with another
// prev; then the node has no successor here.
func (g *Graph) nextOf(place int32) int32 {
	next := atomic.LoadInt32(&g.at(place).next)
	if n := g.at(next); n != nil && n.prev == place {
		return next
	}
	return none
}

// setNext sets the node after a node.
func (c *change) setNext(place, next int32) {
	n := c.g.at(place)
	if next != none && atomic.CompareAndSwapInt32(&n.next, none, next) || atomic.LoadInt32(&n.next) == next {
		return
	}
	n = n.copy()
	n.next = next
	c.g.nodes.set(int(place), n)
}

// parentOf returns the place of a node's parent, or none. A node has at most one.
func (g *Graph) parentOf(n *node) int32 {
	if n.prev != none {
		return n.prev
	}
	return g.runAt(n.run).parent
}
