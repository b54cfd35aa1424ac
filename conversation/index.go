package conversation

import (
	"slices"
	"sync"
	"sync/atomic"
)

// An index finds places by name for a whole family of graphs: all that grew
// from one another, in whichever directions. Entries are only added. Most hold
// for some of the graphs and not for others, so that an entry is a hint, and
// whoever asks checks it against a graph. It is safe for concurrent use.
//
// This is much faster than a persistent map, and costs one thing: what a graph
// that nobody holds any more has added stays until the index is made anew, which
// a graph does when most of the entries are not its own; see [Graph.index].
type index struct {
	mu      sync.Mutex
	nodes   hints        // by node id
	runs    hints        // by run id
	keys    hints        // usage and error nodes by run and event id, see redeliveryKey
	waiting hints        // runs by the id of the parent that was not there
	size    atomic.Int64 // entries in all of them
}

// hints map a name to one place, and seldom to more.
type hints struct {
	first map[string]int32
	more  map[string][]int32
}

func (h *hints) add(name string, place int32) bool {
	first, ok := h.first[name]
	switch {
	case !ok:
		if h.first == nil {
			h.first = make(map[string]int32)
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
		h.more = make(map[string][]int32)
	}
	h.more[name] = append(more, place)
	return true
}

// find returns the latest place for which holds is true, or none.
func (h *hints) find(name string, holds func(place int32) bool) int32 {
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

// all returns every place in the order in which they came.
func (h *hints) all(name string) []int32 {
	first, ok := h.first[name]
	if !ok {
		return nil
	}
	return append([]int32{first}, h.more[name]...)
}

func (x *index) add(h *hints, name string, place int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if h.add(name, place) {
		x.size.Add(1)
	}
}

func (x *index) find(h *hints, name string, holds func(place int32) bool) int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return h.find(name, holds)
}

func (x *index) all(h *hints, name string) []int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return h.all(name)
}
