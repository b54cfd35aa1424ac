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

// cachedSession is a session in memory: its fold, and the values that agents keep with it. Only the turn that has
// checked it out of the cache uses it.
type cachedSession struct {
	key    session.Key
	fold   session.Fold
	memos  memos
	stored map[string]json.RawMessage // memos of a snapshot that no agent has asked for yet, by name
	files  files                      // the files that the log names
	last   string                     // the id of the log's last event
	tail   []*event.Event             // the log's last events, if they were just read; nil otherwise

	incarnation int64 // of the last lease, 0 before the first one
	fork        bool  // the last lease reported a fork
	snapshot    snapshotMark

	prev, next *cachedSession // in the cache, by last use
}

// copySession returns an independent copy of the turn's session. Its tail has all events that the turn has in memory.
func (t *turnSession) copySession() *cachedSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.cached
	w := &cachedSession{key: own.key, fold: own.fold.Clone(), stored: maps.Clone(own.stored), files: slices.Clone(own.files), last: own.last,
		tail: slices.Concat(t.read, t.log), incarnation: own.incarnation, fork: own.fork}
	for key, m := range own.memos {
		if v, ok := m.value.(copier); ok {
			w.memos.put(key, v.Copy())
		}
	}
	return w
}

// copier is a memo that can be copied.
type copier interface {
	// Seq is the position of the last event that the memo has read.
	Seq() int64
	Copy() any
}

// copyTo copies the memos that have read the log up to seq to the memos of a turn. It does nothing unless the run with
// the given id is open: only then is the turn certain not to use these memos at the same time.
func (m memos) copyTo(seq int64, t *turnSession, run string) {
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

// head returns the end of the log.
func (w *cachedSession) head() session.Head { return session.Head{Seq: w.fold.Seq, ID: w.last} }

// isIdle reports whether nothing in the session is open or waits, as far as this process knows, and whether the session
// is not a fork.
func (w *cachedSession) isIdle() bool {
	return w.incarnation != 0 && !w.fork && !w.fold.Unfinished() && !w.fold.Held() && len(w.fold.Scopes) == 0
}

// apply updates the session with the next event of the log.
func (w *cachedSession) apply(e *event.Event) {
	w.fold.Apply(e)
	w.last = session.HeadOf(e).ID
	switch d := e.Data.(type) {
	case *event.File:
		w.files.add(d, 0)
	case *event.User:
		w.files.addSent(d, e.Seq)
	}
}

// maxTail is the maximum number of events that a turn keeps in memory after it has read them, for the views of agents.
const maxTail = 1024

// loadEvents applies the events after a position. It reports false if the events differ from the ones that the session
// knows. To check that, it compares the last known event, which must come after the position.
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
		if n++; n <= maxTail {
			w.tail = append(w.tail, e)
		}
	}
	if n > maxTail {
		w.tail = nil
	}
	return same, nil
}

// files are the files that a log names: for each name the last one.
type files []fileAt

type fileAt struct {
	*event.File       // without a digest if the file is part of a user's message
	Seq         int64 // the position of that message, 0 for other files
}

// add adds a file, in the place of an earlier one with the same name.
func (f *files) add(d *event.File, seq int64) {
	*f = slices.DeleteFunc(*f, func(old fileAt) bool { return old.Name == d.Name })
	*f = append(*f, fileAt{d, seq})
}

// addSent adds the files of a user's message that have names.
func (f *files) addSent(u *event.User, seq int64) {
	for _, p := range u.Content.Parts {
		if m, ok := p.(llm.Media); ok && m.Name != "" {
			f.add(&event.File{Name: m.Name, MediaType: m.MediaType, Size: int64(len(m.Data))}, seq)
		}
	}
}

// memos are the values that agents keep with a session (see [agent.Session]), by key.
type memos map[any]*memo

type memo struct {
	value any
	used  bool // in this turn, since the last transfer
}

// get returns the memo of a key and marks it as used.
func (m memos) get(key any) (value any, ok bool) {
	one := m[key]
	if one == nil {
		return nil, false
	}
	one.used = true
	return one.value, true
}

// put sets the memo of a key and marks it as used.
func (m *memos) put(key, value any) {
	if *m == nil {
		*m = make(memos)
	}
	(*m)[key] = &memo{value, true}
}

// markUnused marks all memos as unused, after a transfer and at the end of a turn, and returns the used ones.
func (m memos) markUnused() (used []any) {
	for _, one := range m {
		if one.used {
			one.used, used = false, append(used, one.value)
		}
	}
	return used
}

// To load a session that is not in the cache, the runner reads its snapshot, and the events that follow it in the log.
// It stores a snapshot after a turn, while it has the lease, so that no other process stores one at the same time. It
// ignores a snapshot that does not match the log, or that it cannot read.

const (
	snapshotEvery = 64              // the default of WithSnapshots
	snapshotShare = 1 << 10         // the maximum size of a snapshot, in bytes for each event since the last one
	snapshotTime  = 5 * time.Second // the time to store a snapshot
)

// snapshotMemo is a memo that is stored in the session's snapshot, as JSON.
type snapshotMemo interface {
	// Seq is the position of the last event that the memo has read.
	Seq() int64
	// SnapshotName is the name of the memo in the snapshot. A memo with the name "" is not stored.
	SnapshotName() string
}

// snapshotMark is the position and the size in bytes of the session's last snapshot.
type snapshotMark struct {
	seq  int64
	size int
}

// isDue reports whether a snapshot is due when the log ends at seq: at least every events came after the last snapshot,
// and enough events for its size.
func (k *snapshotMark) isDue(seq int64, every int) bool {
	n := seq - k.seq
	return n >= int64(every) && int64(k.size) <= n*snapshotShare
}

// document is a snapshot: a checksum, and JSON.
type document struct {
	Fold  *session.Fold
	Last  string // the id of the log's last event
	Files []fileAt
	Memos map[string]json.RawMessage // by name
}

// sum returns the checksum of a session's document.
func sum(key session.Key, data string) string {
	h := crc32.NewIEEE()
	_, _ = fmt.Fprintf(h, "%q %q %q %s", key.App, key.User, key.ID, data) // a hash has no errors
	return fmt.Sprintf("%08x", h.Sum32())
}

// snapshotData encodes the session as a snapshot.
func (w *cachedSession) snapshotData() (string, error) {
	memos := maps.Clone(w.stored)
	for _, m := range w.memos {
		v, ok := m.value.(snapshotMemo)
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

// readSnapshot decodes a snapshot into an empty session. If it reports false, the snapshot is damaged, and the session
// must not be used.
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
