package conversation

import (
	"hash/maphash"
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
	seed    maphash.Seed
	mu      sync.Mutex
	nodes   hints        // by node id
	runs    hints        // by run id
	keys    hints        // usage and error nodes by run and event id, see redeliveryKey
	waiting hints        // runs by the id of a parent that was not in the graph
	size    atomic.Int64 // entries in all of them
}

func newIndex() *index { return &index{seed: maphash.MakeSeed()} }

// hints maps the hash of a name to its places, of which there is mostly one. Callers check every hint, so names can
// share a hash. The maps are small and contain no pointers for the garbage collector.
type hints struct {
	first map[uint64]int32
	more  map[uint64][]int32
}

func (h *hints) add(name uint64, place int32) bool {
	first, ok := h.first[name]
	switch {
	case !ok:
		if h.first == nil {
			h.first = make(map[uint64]int32)
		}
		h.first[name] = place
		return true
	case first == place:
		return false
	}
	more := h.more[name]
	if len(more) > 0 && more[len(more)-1] == place {
		return false
	}
	if h.more == nil {
		h.more = make(map[uint64][]int32)
	}
	h.more[name] = append(more, place)
	return true
}

// find returns the latest place for which holds is true, or none.
func (h *hints) find(name uint64, holds func(place int32) bool) int32 {
	first, ok := h.first[name]
	if !ok {
		return none
	}
	if h.more != nil {
		for _, place := range slices.Backward(h.more[name]) {
			if holds(place) {
				return place
			}
		}
	}
	if holds(first) {
		return first
	}
	return none
}

// all returns every place of a name, in the order in which they were added.
func (h *hints) all(name uint64) []int32 {
	first, ok := h.first[name]
	if !ok {
		return nil
	}
	return append([]int32{first}, h.more[name]...)
}

func (x *index) add(h *hints, name string, place int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if h.add(maphash.String(x.seed, name), place) {
		x.size.Add(1)
	}
}

// addNode adds the entries for a node of a run.
func (x *index) addNode(n *node, runID string, place int32) {
	x.add(&x.nodes, n.id, place)
	if n.body.event != "" {
		x.add(&x.keys, redeliveryKey(runID, n.body), place)
	}
}

// redeliveryKey returns the key of a usage or error node in index.keys: a usage event that is delivered twice has one
// node.
func redeliveryKey(runID string, b *body) string {
	return b.kind + "\x00" + runID + "\x00" + b.event
}

func (x *index) find(h *hints, name string, holds func(place int32) bool) int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return h.find(maphash.String(x.seed, name), holds)
}

func (x *index) all(h *hints, name string) []int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return h.all(maphash.String(x.seed, name))
}
