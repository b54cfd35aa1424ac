package runner

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"maps"
	"runtime/debug"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/session"
)

// A session that is not warm is read from snapshots, and from the log what came after them. They are stored after a
// turn, while its lease is held, so that nobody else stores any. Nothing else hangs on them: one that does not
// fit the log, or cannot be read, is as good as none.

const (
	snapshotEvery = 64              // events
	snapshotShare = 1 << 10         // bytes of snapshots for each event, at most
	snapshotTime  = 5 * time.Second // for storing them
	snapshotForm  = 1               // of what is around the data of each
	sessionName   = "session"       // the fold, and what else the runner knows of all of the log
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

// place is an event by which a log is known.
type place struct {
	seq int64
	id  string
	at  time.Time
}

// sum is the checksum of a snapshot's data, for its place in the store.
func sum(key session.Key, name string, part int64, data string) uint32 {
	head := pack.Text(pack.Text(pack.Text(pack.Text(nil, key.App), key.User), key.ID), name)
	n := crc32.Checksum(pack.Int(head, part), crc32.IEEETable)
	for piece := (make([]byte, 4<<10)); data != ""; { // without a copy of all of it
		copied := copy(piece, data)
		n, data = crc32.Update(n, crc32.IEEETable, piece[:copied]), data[copied:]
	}
	return n
}

// seal makes a snapshot of data that was made when the log ended at a place.
func seal(key session.Key, name string, part int64, p place, data []byte) session.Snapshot {
	b := pack.Time(pack.Text(pack.Int(pack.Int(make([]byte, 0, len(data)+len(p.id)+48), snapshotForm), p.seq), p.id), p.at)
	b = append(b, data...)
	return session.Snapshot{Name: name, Part: part, Seq: p.seq, Data: string(binary.BigEndian.AppendUint32(b, sum(key, name, part, string(b))))}
}

// unseal returns the data of a snapshot, and the place that it was made at.
func unseal(key session.Key, s session.Snapshot) (p place, data string, ok bool) {
	n := len(s.Data) - 4
	if n < 0 || binary.BigEndian.Uint32([]byte(s.Data[n:])) != sum(key, s.Name, s.Part, s.Data[:n]) {
		return place{}, "", false
	}
	r := pack.NewReader(s.Data[:n])
	form := r.Int()
	p = place{r.Position(), r.Text(), r.Time()}
	ok = form == snapshotForm && p.seq == s.Seq && p.seq > 0 && r.Err() == nil
	return p, s.Data[n-r.Left() : n], ok
}

// snapshot reads the parts of a name, and where the last of them was made. There are none if one of them is damaged.
func (r *Runner) snapshot(ctx context.Context, key session.Key, name string) (parts []string, last place) {
	found, err := r.store.Snapshots(ctx, key, name)
	if err != nil && ctx.Err() == nil {
		r.logger.Warn("a snapshot could not be read", "session", key.String(), "name", name, "error", err)
	}
	for _, s := range found {
		p, data, ok := unseal(key, s)
		if !ok || p.seq < last.seq {
			r.logger.Warn("a snapshot is damaged, and what it has is read from the log", "session", key.String(), "name", name)
			return nil, place{}
		}
		parts, last = append(parts, data), p
	}
	return parts, last
}

// recall returns a session as a snapshot has it, or as nothing is known of it. Whether it fits the log
// is still to be seen: its last event is checked as that of any session that is warm.
func (r *Runner) recall(ctx context.Context, key session.Key, lease *session.Lease) *warm {
	w := &warm{key: key}
	if !r.snapshots || lease != nil && lease.Head.Seq < int64(r.every) {
		return w
	}
	parts, last := r.snapshot(ctx, key, sessionName)
	if len(parts) != 1 || lease != nil && last.seq > lease.Head.Seq || !w.read(parts[0]) || w.fold.Seq != last.seq || !w.fold.Latest.Equal(last.at) {
		return &warm{key: key}
	}
	w.last, w.kept = last.id, keptAt{seq: last.seq, size: len(parts[0])}
	return w
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

// known is what a snapshot says of a session.
type known struct {
	Files []fileAt
	Fold  *session.Fold
	Memos map[string]json.RawMessage // what agents keep, by name
}

func (w *warm) bytes() ([]byte, error) {
	memos := maps.Clone(w.stored)
	for _, m := range w.memos {
		v, ok := m.value.(named)
		if !ok || v.SnapshotName() == "" {
			continue
		}
		data, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		if memos == nil {
			memos = make(map[string]json.RawMessage)
		}
		memos[v.SnapshotName()] = data
	}
	return event.Marshal(known{w.files, &w.fold, memos})
}

func (w *warm) read(data string) bool {
	k := known{Fold: &w.fold}
	if json.Unmarshal([]byte(data), &k) != nil || k.Fold == nil {
		return false
	}
	w.files, w.stored = k.Files, k.Memos
	return true
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

// keepSnapshots stores the session if enough has changed since it was stored last. The turn still has the lease.
func (t *turn) keepSnapshots() {
	w := t.w
	if !t.r.snapshots || !w.kept.due(w.fold.Seq, t.r.every) {
		return
	}
	parts := t.takeSnapshots()
	if len(parts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), snapshotTime)
	defer cancel()
	_, err := t.r.store.Write(ctx, t.key, session.Write{Lease: t.lease, Head: w.head(), Snapshots: parts})
	if err != nil && !errors.Is(err, agent.ErrConflict) {
		t.r.logger.Warn("snapshots could not be stored", "session", t.key.String(), "error", err)
	}
}

// takeSnapshots makes what is to be stored.
func (t *turn) takeSnapshots() (parts []session.Snapshot) {
	defer func() {
		if p := recover(); p != nil { // of an agent's own function
			t.forget()
			t.r.logger.Error("a snapshot panicked", "session", t.key.String(), "panic", p, "stack", string(debug.Stack()))
			parts = nil
		}
	}()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.w
	now := place{w.fold.Seq, w.last, w.fold.Latest}
	w.kept = keptAt{seq: now.seq} // which is tried again later, whatever becomes of it
	b, err := w.bytes()
	if err != nil {
		t.r.logger.Warn("a session cannot be stored as a snapshot", "session", w.key.String(), "error", err)
		return nil
	}
	w.kept.size = len(b)
	return []session.Snapshot{seal(w.key, sessionName, 0, now, b)}
}
