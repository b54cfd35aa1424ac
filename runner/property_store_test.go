package runner_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var errStoreDied = errors.New("the store died")

// propertyStore can keep of each event only what its JSON form keeps, and can
// die at a write: before it, or after it with the answer lost. To the session
// that is what a crash of the process is.
type propertyStore struct {
	session.Store
	codec bool

	snapshots *propertySnapshots

	written atomic.Int64 // the end of the log of s1

	mu   sync.Mutex
	left int  // writes until it dies, negative: it lives
	lost bool // the last write is made, its answer is lost
	once bool // the next write after it is made again
	died bool
}

func newPropertyStore(t sessiontest.TB, codec bool) *propertyStore {
	return &propertyStore{Store: sessiontest.Memory(t, session.KeepSnapshots()), codec: codec, left: -1}
}

// dieAt makes the store die at the n-th write from now on, or fail once.
func (s *propertyStore) dieAt(n int, lost, once bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.lost, s.once, s.died = n, lost, once, false
}

// revive brings the store back and reports whether it had died.
func (s *propertyStore) revive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	died := s.died
	s.left, s.died = -1, false
	return died
}

// Write dies before or after a write of events if its time has come.
func (s *propertyStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	switch {
	case len(w.Snapshots) > 0:
		return s.keep(ctx, key, w)
	case len(w.Events) == 0:
		return s.Store.Write(ctx, key, w)
	}
	s.mu.Lock()
	if s.left > 0 {
		s.left--
	}
	dead, dies := s.died && !s.once, s.left == 0
	if dies {
		s.died, s.left = true, -1
	}
	s.mu.Unlock()
	if dead || dies && !s.lost {
		return session.Lease{}, errStoreDied
	}
	if key == s1 {
		s.written.Store(w.End().Seq)
	}
	if s.codec {
		ctx = context.WithoutCancel(ctx) // a store may make a write although nobody waits for it any more
		decoded := make([]*event.Event, len(w.Events))
		for i, e := range w.Events {
			data, err := e.MarshalJSON() // as stores do
			if err != nil {
				return session.Lease{}, err
			}
			decoded[i] = new(event.Event)
			if err := decoded[i].UnmarshalJSON(data); err != nil {
				return session.Lease{}, err
			}
		}
		w.Events = decoded
	}
	lease, err := s.Store.Write(ctx, key, w)
	if err != nil || !dies {
		return lease, err
	}
	if w.Acquires() { // the process that took the lease has died
		_, err := s.Store.Write(context.WithoutCancel(ctx), key, session.Write{Lease: lease, Abandon: true})
		return session.Lease{}, errors.Join(errStoreDied, err)
	}
	return session.Lease{}, errStoreDied
}

// PutBlob fails while the store is dead. Bytes that nobody names matter to nothing.
func (s *propertyStore) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	s.mu.Lock()
	dead := s.died && !s.once
	s.mu.Unlock()
	if dead {
		return "", errStoreDied
	}
	return s.Store.PutBlob(ctx, key, lease, data)
}
