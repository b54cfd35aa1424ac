package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"runtime/debug"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// A session that is not warm is read from its snapshot, and from the log what came after that. It is stored after a
// turn, while its lease is held, so that nobody else stores any. Nothing else hangs on it: one that does not
// fit the log, or cannot be read, is as good as none.

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

// due reports whether the session is to be stored when its log ends at a position.
func (k *keptAt) due(seq int64, every int) bool {
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

// bytes returns the session as a snapshot.
func (w *warm) bytes() (string, error) {
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

// read takes in a snapshot. If it reports false, the session is not to be used.
func (w *warm) read(data string) bool {
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

// recall returns a session as its snapshot has it, or as nothing is known of it. Whether it fits the log
// is still to be seen: its last event is checked as that of any session that is warm.
func (r *Runner) recall(ctx context.Context, key session.Key, lease *session.Lease) *warm {
	w := &warm{key: key}
	if !r.snapshots || lease != nil && lease.Head.Seq < int64(r.every) {
		return w
	}
	found, err := r.store.Snapshots(ctx, key, snapshotName)
	if err != nil && ctx.Err() == nil {
		r.logger.Warn("the snapshot could not be read", "session", key.String(), "error", err)
	}
	if len(found) == 0 {
		return w
	}
	s := found[0]
	switch {
	case len(found) > 1 || !w.read(s.Data) || w.fold.Seq != s.Seq:
		r.logger.Warn("the snapshot is damaged, and the log is read in its place", "session", key.String())
	case lease == nil || s.Seq <= lease.Head.Seq:
		w.kept = keptAt{seq: s.Seq, size: len(s.Data)}
		return w
	}
	return &warm{key: key}
}

// recallUser reads what the user has said if a snapshot has left it out.
func (r *Runner) recallUser(ctx context.Context, w *warm) error {
	turn := &w.fold.Turn
	if turn.User != nil || turn.First == 0 {
		return nil
	}
	turn.User = &event.User{} // of an event that is unreadable
	for e, err := range r.store.Load(ctx, w.key, turn.First-1) {
		if err != nil {
			return err
		}
		if user, ok := e.Data.(*event.User); ok {
			turn.User = user
		}
		break
	}
	return nil
}

// restored makes what an agent keeps, as the session's snapshot has it if it can be read.
func (t *turn) restored(create func() any) any {
	value := create() // it may look at the session
	v, ok := value.(named)
	if !ok {
		return value
	}
	t.mu.Lock()
	data, end := t.w.stored[v.SnapshotName()], t.w.fold.Seq
	delete(t.w.stored, v.SnapshotName())
	t.mu.Unlock()
	if data != nil && (json.Unmarshal(data, v) != nil || v.Seq() > end) { // what has taken in some of it is none
		return create()
	}
	return value
}

// keepSnapshot stores the session if enough has changed since it was stored last. The turn still has the lease.
func (t *turn) keepSnapshot() {
	w := t.w
	if !t.r.snapshots || !w.kept.due(w.fold.Seq, t.r.every) {
		return
	}
	data := t.takeSnapshot()
	if data == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), snapshotTime)
	defer cancel()
	parts := []session.Snapshot{{Name: snapshotName, Seq: w.fold.Seq, Data: data}}
	_, err := t.r.store.Write(ctx, t.key, session.Write{Lease: t.lease, Head: w.head(), Snapshots: parts})
	if err != nil && !errors.Is(err, agent.ErrConflict) {
		t.r.logger.Warn("the snapshot could not be stored", "session", t.key.String(), "error", err)
	}
}

// takeSnapshot returns what is to be stored, "" if it cannot be.
func (t *turn) takeSnapshot() (data string) {
	defer func() {
		if p := recover(); p != nil { // of an agent's own function
			t.forget()
			t.r.logger.Error("a snapshot panicked", "session", t.key.String(), "panic", p, "stack", string(debug.Stack()))
			data = ""
		}
	}()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.w
	w.kept = keptAt{seq: w.fold.Seq} // it is tried again later, whatever becomes of it
	data, err := w.bytes()
	if err != nil {
		t.r.logger.Warn("a session cannot be stored as a snapshot", "session", t.key.String(), "error", err)
		return ""
	}
	w.kept.size = len(data)
	return data
}
