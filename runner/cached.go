package runner

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// cachedSession is a session that was used lately: its fold, and what agents keep next to
// it. Only the turn that took it from the cache uses it.
type cachedSession struct {
	key    session.Key
	fold   session.Fold
	memos  memos
	stored map[string]json.RawMessage // the memos of a snapshot that no agent has asked for yet
	born   int64                      // the incarnation of the session, 0 if no lease was seen yet
	fork   bool                       // the last lease said that it is one
	files  files                      // that the log names
	last   string                     // the id of the log's last event
	kept   keptAt                     // when its snapshot was stored
	tail   []*event.Event             // the log's last events, if they were just read

	prev, next *cachedSession // in the cache, by last use
}

// copied returns a copy of the session as the turn has it now, whose log goes back as far as the turn has it in memory.
func (t *turnSession) copied() *cachedSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.cached
	w := &cachedSession{key: own.key, fold: own.fold.Clone(), stored: maps.Clone(own.stored), born: own.born, fork: own.fork,
		files: slices.Clone(own.files), last: own.last, tail: slices.Concat(t.read, t.log)}
	for key, m := range own.memos {
		if v, ok := m.value.(copier); ok {
			w.memos.put(key, v.Copy())
		}
	}
	return w
}

// copier is what an agent keeps next to a session and can be copied.
type copier interface {
	// Seq is the position of the log up to which it has read.
	Seq() int64
	Copy() any
}

// lend puts copies of what was read of the log up to a position into the memos of a turn, as long as a run is open: the
// turn uses none of them before it has ended.
func (m memos) lend(seq int64, t *turnSession, run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := &t.fold().Conversation.Run; !now.Open || now.ID != run {
		return
	}
	for key, one := range m {
		v, ok := one.value.(copier)
		if !ok || v.Seq() != seq {
			continue
		}
		if other := t.cached.memos[key]; other == nil || other.value.(copier).Seq() < seq {
			t.cached.memos.put(key, v.Copy())
		}
	}
}

// head returns where the log ended.
func (w *cachedSession) head() session.Head { return session.Head{Seq: w.fold.Seq, ID: w.last} }

// atRest reports whether a new turn would find nothing that is open or waits, as far as is known, and the session is no fork.
func (w *cachedSession) atRest() bool {
	return w.born != 0 && !w.fork && !w.fold.Unfinished() && !w.fold.Held() && w.fold.Scopes.Len() == 0
}

// apply takes a stored event into what is kept of the session.
func (w *cachedSession) apply(e *event.Event) {
	w.fold.Apply(e)
	w.last = session.HeadOf(e).ID
	switch d := e.Data.(type) {
	case *event.File:
		w.files.add(d, 0)
	case *event.User:
		w.files.sent(d, e.Seq)
	}
}

// longTail is how many events are kept in memory until the end of a turn because they were just read: agents' views
// want them, too.
const longTail = 1024

// loadEvents adds the events after a position. It reports false if the last known event
// is no longer the same; that event is checked if it comes after the position.
func (w *cachedSession) loadEvents(events iter.Seq2[*event.Event, error], after int64) (same bool, err error) {
	same = after == w.fold.Seq
	w.tail = nil
	n := 0
	for e, err := range events {
		switch {
		case err != nil:
			return false, err
		case e.Seq > w.fold.Seq:
			w.apply(e)
		case session.HeadOf(e).ID != w.last || !e.Time.Equal(w.fold.Latest):
			return false, nil
		default:
			same = true
		}
		if n++; n <= longTail {
			w.tail = append(w.tail, e)
		}
	}
	if n > longTail {
		w.tail = nil
	}
	return same, nil
}

// files are those that a log names; of each name the last one.
type files []fileAt

type fileAt struct {
	*event.File       // without a digest if it is in a user's message
	Seq         int64 // of that message
}

func (f *files) add(d *event.File, seq int64) {
	*f = slices.DeleteFunc(*f, func(old fileAt) bool { return old.Name == d.Name })
	*f = append(*f, fileAt{d, seq})
}

// sent takes in the files of a user's message that have names.
func (f *files) sent(u *event.User, seq int64) {
	for _, p := range u.Content.Parts {
		if m, ok := p.(llm.Media); ok && m.Name != "" {
			f.add(&event.File{Name: m.Name, MediaType: m.MediaType, Size: int64(len(m.Data))}, seq)
		}
	}
}

// memos are what agents keep next to a session, by their keys.
type memos map[any]*memo

type memo struct {
	value any
	used  bool // since the active agent began, in the turn under way
}

// get returns what is kept.
func (m memos) get(key any) (value any, ok bool) {
	one := m[key]
	if one == nil {
		return nil, false
	}
	one.used = true
	return one.value, true
}

// put keeps a value.
func (m *memos) put(key, value any) {
	if *m == nil {
		*m = make(memos)
	}
	(*m)[key] = &memo{value, true}
}

// unuse notes that another agent is active now.
func (m memos) unuse() {
	for _, one := range m {
		one.used = false
	}
}

// A session that is not in the cache is read from its snapshot, and from the log what came after that. It is stored after a
// turn, while its lease is held, so that no other process stores one. A snapshot that does not fit the log or
// cannot be read is ignored.

const (
	snapshotEvery = 64              // events
	snapshotShare = 1 << 10         // bytes of the snapshot for each event, at most
	snapshotTime  = 5 * time.Second // for storing it
	snapshotName  = "document"      // in the store
)

// named is what an agent keeps next to a session and has a name of its own: it is stored in the session's snapshot as JSON.
type named interface {
	// Seq is the position of the log up to which it has read.
	Seq() int64
	// SnapshotName is its name in the snapshot, "" if it is not stored.
	SnapshotName() string
}

// keptAt says when the session was stored last, and in how many bytes.
type keptAt struct {
	seq  int64
	size int
}

// isDue reports whether the session is to be stored when its log ends at a position.
func (k *keptAt) isDue(seq int64, every int) bool {
	n := seq - k.seq
	return n >= int64(every) && int64(k.size) <= n*snapshotShare
}

// document is a snapshot: a checksum, and JSON.
type document struct {
	Fold  *session.Fold
	Last  string // the id of the log's last event
	Files []fileAt
	Memos map[string]json.RawMessage // what agents keep, by name
}

// sum is the checksum of a session's document.
func sum(key session.Key, data string) string {
	h := crc32.NewIEEE()
	_, _ = fmt.Fprintf(h, "%q %q %q %s", key.App, key.User, key.ID, data) // a hash has no errors
	return fmt.Sprintf("%08x", h.Sum32())
}

// snapshotData returns the session as a snapshot.
func (w *cachedSession) snapshotData() (string, error) {
	memos := maps.Clone(w.stored)
	for _, m := range w.memos {
		v, ok := m.value.(named)
		if !ok || v.SnapshotName() == "" {
			continue
		}
		data, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		if memos == nil {
			memos = make(map[string]json.RawMessage)
		}
		memos[v.SnapshotName()] = data
	}
	data, err := event.Marshal(document{&w.fold, w.last, w.files, memos})
	if err != nil {
		return "", err
	}
	return sum(w.key, string(data)) + string(data), nil
}

// readSnapshot takes in a snapshot. If it reports false, the session is not to be used.
func (w *cachedSession) readSnapshot(data string) bool {
	n := min(len(sum(w.key, "")), len(data))
	if data[:n] != sum(w.key, data[n:]) {
		return false
	}
	d := document{Fold: &w.fold}
	if json.Unmarshal([]byte(data[n:]), &d) != nil || d.Fold == nil || w.fold.Seq == 0 {
		return false
	}
	w.last, w.files, w.stored = d.Last, d.Files, d.Memos
	return true
}
