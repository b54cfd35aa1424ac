package conversation

import "sync/atomic"

// vector is a persistent list of pointers. A copy of a vector is independent of it, and add and set change only a
// bounded number of small nodes, however long the list is. Copies can be used concurrently.
//
// Items are in leaves of 16. The last leaf is separate: the longest copy adds an item in its free place, which shorter
// copies never read. All other leaves are in trees of four levels with a million items each.
type vector[T any] struct {
	n     int
	trees []*fan[fan[fan[fan[leaf[T]]]]]
	tail  *leaf[T]
}

const width = 16 // of a leaf and of a fan

type leaf[T any] struct {
	used  atomic.Int32 // the number of places that a vector has claimed
	items [width]*T
}

// fan is an inner node of a tree. Unused kids are nil.
type fan[C any] struct{ kids [width]*C }

func (f *fan[C]) kid(i int) *C {
	if f == nil {
		return nil
	}
	return f.kids[i%width]
}

// with returns a copy of a fan, which may be nil, with another kid at an index.
func (f *fan[C]) with(i int, kid *C) *fan[C] {
	next := new(fan[C])
	if f != nil {
		*next = *f
	}
	next.kids[i%width] = kid
	return next
}

// tailStart returns the index of the first item of the last leaf.
func (v *vector[T]) tailStart() int { return (v.n - 1) &^ (width - 1) }

func (v *vector[T]) get(i int) *T {
	if i >= v.tailStart() {
		return v.tail.items[i%width]
	}
	return v.leaf(i / width).items[i%width]
}

func (v *vector[T]) leaf(i int) *leaf[T] {
	return v.trees[i>>16].kids[i>>12%width].kids[i>>8%width].kids[i>>4%width].kids[i%width]
}

// add appends an item.
func (v *vector[T]) add(item *T) {
	k := v.n % width
	switch {
	case k == 0:
		if v.n > 0 {
			v.setLeaf(v.n/width-1, v.tail)
		}
		v.tail = new(leaf[T])
		v.tail.used.Store(1)
	case !v.tail.used.CompareAndSwap(int32(k), int32(k+1)):
		// Another vector has claimed this place: copy the leaf.
		v.tail = v.tail.copy(k)
		v.tail.used.Store(int32(k + 1))
	}
	v.tail.items[k] = item
	v.n++
}

// set replaces an item.
func (v *vector[T]) set(i int, item *T) {
	start := v.tailStart()
	if i >= start {
		v.tail = v.tail.copy(v.n - start)
		v.tail.items[i-start] = item
		return
	}
	l := v.leaf(i / width).copy(width)
	l.items[i%width] = item
	v.setLeaf(i/width, l)
}

// copy returns a leaf with the first n items. The other items belong to longer vectors, which may be changing them.
func (l *leaf[T]) copy(n int) *leaf[T] {
	next := new(leaf[T])
	next.used.Store(int32(n))
	copy(next.items[:n], l.items[:n])
	return next
}

// setLeaf sets a leaf of the trees.
func (v *vector[T]) setLeaf(i int, l *leaf[T]) {
	trees := make([]*fan[fan[fan[fan[leaf[T]]]]], max(len(v.trees), i>>16+1))
	copy(trees, v.trees)
	a := trees[i>>16]
	b := a.kid(i >> 12)
	c := b.kid(i >> 8)
	d := c.kid(i >> 4)
	trees[i>>16] = a.with(i>>12, b.with(i>>8, c.with(i>>4, d.with(i, l))))
	v.trees = trees
}
