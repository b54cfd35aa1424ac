package sessiontest

import (
	"bytes"
	"context"
	"sync"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
)

// TB is the part of [testing.TB] that [Checked] needs. The values of libraries for property tests have it, too.
type TB interface {
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// Memory returns an empty [session.Memory] that [Checked] checks.
func Memory(t TB, opts ...session.MemoryOption) session.Store {
	return Checked(t, session.NewMemory(opts...))
}

// Checked wraps a store and checks its sessions whenever a lease is released or abandoned, which is after every turn:
// the log must follow the laws of [integrity], and the session's status must be that of its fold. Each event must read
// back as it was written, at once and whenever it is loaded later. A violation fails the test without ending it. A test
// that stores damaged logs on purpose needs a store that is not checked.
func Checked(t TB, store session.Store) session.Store {
	return &checked{Store: store, t: t, logs: make(map[session.Key]*checkedLog)}
}

type checked struct {
	session.Store
	t TB

	mu   sync.Mutex
	logs map[session.Key]*checkedLog
}

// checkedLog is the checked state of one session.
type checkedLog struct {
	incarnation int64
	written     map[int64][]byte // events as they were given, by position
	checker     integrity.Checker
	seq         int64 // checked up to here
	reported    int
}

// of returns the checked state of a session. The caller holds mu.
func (s *checked) of(key session.Key, lease session.Lease) *checkedLog {
	l := s.logs[key]
	if l == nil || l.incarnation != lease.Incarnation {
		l = &checkedLog{incarnation: lease.Incarnation, written: make(map[int64][]byte)}
		s.logs[key] = l
	}
	return l
}

func (s *checked) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	encoded := make([][]byte, len(w.Events))
	for i, e := range w.Events {
		var err error
		if encoded[i], err = e.MarshalJSON(); err != nil {
			s.t.Errorf("session %s: an event that has no JSON form is stored: %v", key, err)
		}
	}
	if w.Ends() && len(w.Events) == 0 { // nobody has a lease yet that would make it another session
		s.check(context.WithoutCancel(ctx), key, w.Lease)
	}
	lease, err := s.Store.Write(ctx, key, w)
	if err != nil || len(w.Events) == 0 {
		return lease, err
	}
	s.mu.Lock()
	l := s.of(key, lease)
	for i, e := range w.Events {
		l.written[e.Seq] = encoded[i]
	}
	s.mu.Unlock()
	if w.Ends() {
		s.check(context.WithoutCancel(ctx), key, lease)
	}
	return lease, nil
}

// check reads the events that were stored since the last check.
func (s *checked) check(ctx context.Context, key session.Key, lease session.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of(key, lease)
	for e, err := range s.Store.Load(ctx, key, l.seq) {
		if err != nil {
			return // of a store that is made to fail
		}
		data, err := e.MarshalJSON()
		var again event.Event
		if err == nil {
			err = again.UnmarshalJSON(data)
		}
		if err != nil {
			s.t.Errorf("session %s: seq %d cannot be read back: %v", key, e.Seq, err)
			return
		}
		if f, ok := e.Data.(*event.File); ok && session.IsDigest(f.Digest) {
			if data, err := s.Store.Blob(ctx, key, f.Digest); err != nil || int64(len(data)) != f.Size {
				s.t.Errorf("session %s: seq %d names the file %s, whose bytes are not stored: %v", key, e.Seq, f.Name, err)
			}
		}
		if was, ok := l.written[e.Seq]; ok && !bytes.Equal(was, data) {
			s.t.Errorf("session %s: seq %d does not read back as it was written:\n%s\n%s", key, e.Seq, was, data)
		}
		if second, _ := again.MarshalJSON(); !bytes.Equal(second, data) {
			s.t.Errorf("session %s: seq %d is another event when it is read again:\n%s\n%s", key, e.Seq, data, second)
		}
		l.checker.Add(&again)
		l.seq = e.Seq
	}
	info, _, err := session.Find(ctx, s.Store, key)
	if status, ok := l.checker.Status(); err == nil && ok && info.Seq == l.seq && info.Status != status {
		s.t.Errorf("session %s: the store says that its status is %q, and the log says %q", key, info.Status, status)
	}
	found := l.checker.Violations()
	for _, v := range found[l.reported:] {
		s.t.Errorf("session %s: %s", key, v)
	}
	if len(found) > l.reported {
		s.tell(ctx, key)
	}
	l.reported = len(found)
}

// tell prints a log that breaks a law.
func (s *checked) tell(ctx context.Context, key session.Key) {
	for e, err := range s.Store.Load(ctx, key, 0) {
		if err != nil {
			return
		}
		data, _ := e.MarshalJSON()
		s.t.Logf("%s", data)
	}
}
