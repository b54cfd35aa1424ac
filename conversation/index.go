package conversation

import (
	"slices"
	"sync"
	"sync/atomic"
)

// index finds places by name for all graphs that grew from one another, in any direction. Entries are only added, and
// an entry can be right for some of the graphs and wrong for others. So an entry is a hint that the caller checks in
// its graph. An index is safe for concurrent use.
//
// It is much faster than a persistent map. Its cost is that the entries of unused graphs stay until a graph builds a
// new index, because most entries are not its own; see [Graph.index].
type index struct {
	mu      sync.Mutex
	nodes   hints        // by node id
	runs    hints        // by run id
	keys    hints        // usage and error nodes by run and event id, see redeliveryKey
	waiting hints        // runs by the id of a parent that was not in the graph
	size    atomic.Int64 // entries in all of them
}

func newIndex() *index { return &index{nodes: hints{}, runs: hints{}, keys: hints{}, waiting: hints{}} }

// hints are places by name, in the order in which they were added. There is mostly one.
type hints map[string][]int32

func (x *index) add(h hints, name string, place int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	places := h[name]
	if n := len(places); n > 0 && (places[0] == place || places[n-1] == place) {
		return
	}
	h[name] = append(places, place)
	x.size.Add(1)
}

// addNode adds the entries for a node of a run.
func (x *index) addNode(n *node, runID string, place int32) {
	x.add(x.nodes, n.id, place)
	if n.body.event != "" {
		x.add(x.keys, redeliveryKey(runID, n.body), place)
	}
}

// redeliveryKey returns the key of a usage or error node in index.keys: a usage event that is delivered twice has one
// node.
func redeliveryKey(runID string, b *body) string {
	return b.kind + "\x00" + runID + "\x00" + b.event
}

// find returns the latest place for which holds is true, or none.
func (x *index) find(h hints, name string, holds func(place int32) bool) int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, place := range slices.Backward(h[name]) {
		if holds(place) {
			return place
		}
	}
	return none
}

// all returns every place of a name.
func (x *index) all(h hints, name string) []int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(h[name])
}
