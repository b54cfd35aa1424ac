package runner

import (
	"encoding/binary"
	"slices"
	"sort"

	"github.com/agentarbor/arbor/internal/pack"
)

// callIDs are the ids of all tool calls of a log: some endpoints only count, and no id may come twice. Of each
// there is a hash, since to take an unused id for a used one does no harm. Its zero value has none.
type callIDs struct {
	n     int64               // calls in the log
	fresh map[uint64]struct{} // of those after the runs
	runs  []idRun             // of the others, in the order of the log
	// unread is how many of the others are in the store alone, 0 if none are.
	unread int64
}

// idRun is the ids of the calls after a number of calls, up to another one: sorted, eight bytes each.
type idRun struct {
	from, to int64
	ids      string
}

// hashID is FNV-1a.
func hashID(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return h
}

func (c *callIDs) add(id string) {
	if c.fresh == nil {
		c.fresh = make(map[uint64]struct{})
	}
	c.fresh[hashID(id)] = struct{}{}
	c.n++
}

// has reports whether a call has the id. What is in the store alone is read first; if that fails, every id is taken.
func (c *callIDs) has(id string, read func() bool) bool {
	h := hashID(id)
	if _, ok := c.fresh[h]; ok {
		return true
	}
	if c.unread > 0 {
		if !read() {
			return true
		}
		if _, ok := c.fresh[h]; ok { // read from the log, for want of a snapshot
			return true
		}
	}
	for i := range c.runs {
		if c.runs[i].has(h) {
			return true
		}
	}
	return false
}

func (r *idRun) len() int { return len(r.ids) / 8 }

func (r *idRun) at(i int) uint64 {
	var b [8]byte
	copy(b[:], r.ids[8*i:])
	return binary.BigEndian.Uint64(b[:])
}

func (r *idRun) has(h uint64) bool {
	i := sort.Search(r.len(), func(i int) bool { return r.at(i) >= h })
	return i < r.len() && r.at(i) == h
}

// next is what is to be stored: the fresh ids, with those of the last runs if they are not more, so that
// there are few runs, and each id is stored a few times. keep is how many runs stay.
func (c *callIDs) next() (run idRun, keep int) {
	known := c.unread
	if n := len(c.runs); n > 0 {
		known = c.runs[n-1].to
	}
	run, keep = idRun{from: known, to: c.n}, len(c.runs)
	all := make([]uint64, 0, 2*len(c.fresh))
	for h := range c.fresh {
		all = append(all, h)
	}
	for keep > 0 && c.runs[keep-1].len() <= len(all) {
		keep--
		last := &c.runs[keep]
		for i := range last.len() {
			all = append(all, last.at(i))
		}
		run.from = last.from
	}
	slices.Sort(all)
	all = slices.Compact(all)
	b := make([]byte, 0, 8*len(all))
	for _, h := range all {
		b = binary.BigEndian.AppendUint64(b, h)
	}
	run.ids = string(b)
	return run, keep
}

// stored notes that a run is stored, behind so many of those before.
func (c *callIDs) stored(run idRun, keep int) {
	c.fresh = nil
	if c.unread > 0 { // it is read when it is needed
		c.unread = run.to
		return
	}
	c.runs = append(c.runs[:keep:keep], run)
}

func (r *idRun) appendTo(b []byte) []byte {
	return pack.Text(pack.Int(pack.Int(b, r.from), r.to), r.ids)
}

// readRuns reads stored runs. They are refused unless they have all calls up to a number of them.
func (c *callIDs) readRuns(parts []string) bool {
	var runs []idRun
	known := int64(0)
	for _, data := range parts {
		r := pack.NewReader(data)
		run := idRun{from: r.Position(), to: r.Position(), ids: r.Text()}
		if r.Done() != nil || run.from > known || run.to < run.from || len(run.ids)%8 != 0 {
			return false
		}
		known = max(known, run.to)
		runs = append(runs, run)
	}
	if known < c.unread {
		return false
	}
	c.runs, c.unread = runs, 0
	return true
}
