package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
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
func (w *cachedSession) bytes() (string, error) {
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
func (w *cachedSession) read(data string) bool {
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

// keepSnapshot stores the session if enough has changed since it was stored last. The turn still has the lease.
func (t *turn) keepSnapshot() {
	w := t.cached
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
