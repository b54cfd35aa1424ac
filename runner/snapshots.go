package runner

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"runtime/debug"
	"slices"
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
	callsName     = "calls"         // the ids of all calls
)

// snapshotted is what an agent keeps beside a session and can be stored beside the log, such as a view.
type snapshotted interface {
	Seq() int64
	// SnapshotName is the name of its snapshot, "" if it is not to be stored.
	SnapshotName() string
	// Snapshot returns what is to be stored in place of the parts from a number on.
	Snapshot(anew bool) (part int64, data []byte, err error)
	// Restore puts a fresh value back to what was stored, if it can. Else the value is not used.
	Restore(parts []string) bool
}

// small is what is stored as a whole each time, as JSON.
type small interface {
	Seq() int64
	SnapshotName() string
}

// whole makes one part of what is small.
type whole struct{ small }

func (w whole) Snapshot(bool) (part int64, data []byte, err error) {
	data, err = json.Marshal(w.small)
	return 0, data, err
}

func (w whole) Restore(parts []string) bool {
	return len(parts) == 1 && json.Unmarshal([]byte(parts[0]), w.small) == nil
}

// snapshotOf returns how what an agent keeps is stored, nil if it is not.
func snapshotOf(value any) snapshotted {
	switch v := value.(type) {
	case snapshotted:
		return v
	case small:
		return whole{v}
	}
	return nil
}

// keptAt says when something was stored last.
type keptAt struct {
	seq  int64
	size int // of what is stored as a whole each time
	// never is set for what cannot be stored, anew for what must be stored as a whole.
	never, anew bool
}

// due reports whether something that is at a position is to be stored.
func (k *keptAt) due(seq int64, every int) bool {
	n := seq - k.seq
	return n >= int64(every) && !k.never && int64(k.size) <= n*snapshotShare
}

// due reports whether anything is to be stored. Then all is that would be soon: what was stored at one
// position is read with the same events behind it.
func (w *warm) due(every int) bool {
	if w.kept.due(w.fold.Seq, every) {
		return true
	}
	for i := range w.memos {
		if s := w.memos[i].stored; s != nil && w.memos[i].kept.due(s.Seq(), every) {
			return true
		}
	}
	return false
}

// dueAfter reports whether anything may be to be stored once a number of events has come.
func (w *warm) dueAfter(events, every int) bool {
	seq := w.fold.Seq + int64(events)
	due := w.kept.due(seq, every)
	for i := range w.memos {
		s := w.memos[i].stored
		if s == nil {
			continue
		}
		at := s.Seq()
		if w.memos[i].used { // it will get these events
			at = seq
		}
		due = due || w.memos[i].kept.due(at, every)
	}
	return due && seq >= int64(every)
}

// place is an event by which a log is known.
type place struct {
	seq int64
	id  string
	at  time.Time
}

func (p place) is(e *event.Event) bool { return e.Seq == p.seq && e.ID == p.id && e.Time.Equal(p.at) }

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
	Calls int64
	Files []fileAt
	Fold  *session.Fold
}

func (w *warm) bytes() ([]byte, error) {
	return event.Marshal(known{w.calls.n, w.files, &w.fold})
}

func (w *warm) read(data string) bool {
	k := known{Fold: &w.fold}
	if json.Unmarshal([]byte(data), &k) != nil || k.Fold == nil {
		return false
	}
	w.calls.n, w.calls.unread, w.files = k.Calls, k.Calls, k.Files
	return true
}

// recallCalls reads the ids of the calls before the session's snapshot, from the log if need be. The caller holds mu.
func (t *turn) recallCalls() bool {
	w := t.w
	parts, last := t.r.snapshot(t.ctx, w.key, callsName)
	if len(parts) > 0 && last.seq <= w.fold.Seq && t.r.has(t.ctx, w.key, last) && w.calls.readRuns(parts) {
		return true
	}
	all := callIDs{}
	for e, err := range t.r.store.Load(t.ctx, w.key, 0) {
		if err != nil {
			return false
		}
		if _, ok := e.Data.(*event.ToolCall); ok && e.Seq <= w.fold.Seq {
			all.add(e.ID)
		}
	}
	w.calls = all
	return true
}

// has reports whether the log has an event, by looking it up.
func (r *Runner) has(ctx context.Context, key session.Key, p place) bool {
	for e, err := range r.store.Load(ctx, key, p.seq-1) {
		return err == nil && p.is(e)
	}
	return false
}

// restored makes what an agent keeps beside the session, as it was when it was stored if that can be had.
func (t *turn) restored(create func() any) (m memo) {
	m.value = create() // it may look at the session
	if !t.r.snapshots {
		return m
	}
	if m.stored = snapshotOf(m.value); m.stored == nil {
		return m
	}
	t.mu.Lock()
	key, end := t.key, t.w.fold.Seq
	before := end - int64(len(t.log))
	t.mu.Unlock()
	name := m.stored.SnapshotName()
	if m.kept.never = name == ""; name == "" || before < int64(t.r.every) {
		return m
	}
	parts, last := t.r.snapshot(t.ctx, key, name)
	if len(parts) == 0 || last.seq > end || !t.has(last) {
		return m
	}
	if !m.stored.Restore(parts) || m.stored.Seq() != last.seq { // what has taken in some of it is none
		m.value = create()
		m.stored = snapshotOf(m.value)
		return m
	}
	m.kept = keptAt{seq: last.seq}
	if _, ok := m.stored.(whole); ok {
		m.kept.size = len(parts[0])
	}
	return m
}

// has reports whether the log has an event. If that has to be read, the events behind it are kept, since
// who was stored there wants them next.
func (t *turn) has(p place) bool {
	t.mu.Lock()
	key, known := t.key, len(t.read)
	e, until := t.event(p.seq)
	t.mu.Unlock()
	if e != nil {
		return p.is(e)
	}
	if gap := until - p.seq + 1; gap > int64(longTail-known) {
		return t.r.has(t.ctx, key, p)
	}
	var read []*event.Event
	for e, err := range t.r.store.Load(t.ctx, key, p.seq-1) {
		if err != nil {
			return false
		}
		if e.Seq > until {
			break
		}
		read = append(read, e)
	}
	if len(read) == 0 || !p.is(read[0]) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.read) == known && read[len(read)-1].Seq == until {
		t.read = append(read, t.read...)
	}
	return true
}

// event returns an event that is in memory, else nil, and up to where they are not. The caller holds mu.
func (t *turn) event(seq int64) (e *event.Event, until int64) {
	first := t.w.fold.Seq - int64(len(t.log))
	until = first - int64(len(t.read))
	switch {
	case seq > t.w.fold.Seq:
		return nil, until
	case seq > first:
		return t.log[seq-first-1], until
	case seq > until:
		return t.read[seq-until-1], until
	}
	return nil, until
}

// keepSnapshots stores what has changed enough since it was stored last. The turn still has the lease.
func (t *turn) keepSnapshots() {
	if !t.r.snapshots || t.w.fold.Seq < int64(t.r.every) {
		return
	}
	parts, stored := t.takeSnapshots()
	if len(parts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), snapshotTime)
	defer cancel()
	_, err := t.r.store.Write(ctx, t.key, session.Write{Lease: t.lease, Head: t.w.head(), Snapshots: parts})
	if err != nil && !errors.Is(err, agent.ErrConflict) {
		t.r.logger.Warn("snapshots could not be stored", "session", t.key.String(), "error", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, done := range stored {
		done(err == nil)
	}
}

// takeSnapshots makes what is to be stored, and what is to be called when it was.
func (t *turn) takeSnapshots() (parts []session.Snapshot, stored []func(ok bool)) {
	defer func() {
		if p := recover(); p != nil { // of an agent's own function
			t.forget()
			t.r.logger.Error("a snapshot panicked", "session", t.key.String(), "panic", p, "stack", string(debug.Stack()))
			parts = nil
		}
	}()
	t.mu.Lock()
	defer t.mu.Unlock()
	w, every := t.w, t.r.every
	if !w.due(every) {
		return nil, nil
	}
	every = max(1, every/4)
	if w.kept.due(w.fold.Seq, every) {
		now := place{w.fold.Seq, w.last, w.fold.Latest}
		b, err := w.bytes()
		if err != nil {
			t.r.logger.Warn("a session cannot be stored as a snapshot", "session", w.key.String(), "error", err)
			w.kept = keptAt{seq: now.seq}
		} else {
			run, keep := w.calls.next()
			fresh := run.to > run.from
			parts = append(parts, seal(w.key, sessionName, 0, now, b))
			if fresh {
				parts = append(parts, seal(w.key, callsName, run.from, now, run.appendTo(nil)))
			}
			stored = append(stored, func(ok bool) {
				if w.kept = (keptAt{seq: now.seq, size: len(b)}); ok && fresh {
					w.calls.stored(run, keep)
				}
			})
		}
	}
	for i := range w.memos {
		s := w.memos[i].stored
		if s == nil || !w.memos[i].kept.due(s.Seq(), every) {
			continue
		}
		e, _ := t.event(s.Seq())
		name := s.SnapshotName()
		if e == nil || name == "" { // it can be stored when it has gone on, and is not due until then
			w.memos[i].kept.seq = s.Seq()
			continue
		}
		if slices.ContainsFunc(parts, func(p session.Snapshot) bool { return p.Name == name }) {
			continue
		}
		part, b, err := s.Snapshot(w.memos[i].kept.anew)
		if err != nil {
			t.r.logger.Warn("what an agent keeps cannot be stored as a snapshot", "session", w.key.String(), "name", name, "error", err)
			w.memos[i].kept = keptAt{seq: e.Seq, anew: true}
			continue
		}
		kept := keptAt{seq: e.Seq}
		if _, ok := s.(whole); ok {
			kept.size = len(b)
		}
		parts = append(parts, seal(w.key, name, part, place{e.Seq, e.ID, e.Time}, b))
		stored = append(stored, func(ok bool) {
			if i < len(w.memos) { // else they were forgotten
				kept.anew = !ok
				w.memos[i].kept = kept
			}
		})
	}
	return parts, stored
}
