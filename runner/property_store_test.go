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
	died bool
}

func newPropertyStore(t sessiontest.TB, codec bool) *propertyStore {
	return &propertyStore{Store: sessiontest.Memory(t, session.KeepSnapshots()), codec: codec, left: -1}
}

// dieAt makes the store die at the n-th write from now on.
func (s *propertyStore) dieAt(n int, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.lost, s.died = n, lost, false
}

// revive brings the store back and reports whether it had died.
func (s *propertyStore) revive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	died := s.died
	s.left, s.died = -1, false
	return died
}

func (s *propertyStore) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	return s.write(ctx, key, seq, events, func(ctx context.Context, events []*event.Event) error {
		return s.Store.Append(ctx, key, seq, lease, events...)
	})
}

// inOneWrite is the same store for runners that can take a lease in the first write of a turn and give it back in the last one.
type inOneWrite struct{ *propertyStore }

func (s inOneWrite) AcquireAppend(ctx context.Context, key session.Key, owner session.Owner, expected session.Lease, events ...*event.Event) (lease session.Lease, err error) {
	err = s.write(ctx, key, expected.Seq, events, func(ctx context.Context, events []*event.Event) (err error) {
		lease, err = s.Store.(session.Acquirer).AcquireAppend(ctx, key, owner, expected, events...)
		return err
	})
	if err != nil && lease != (session.Lease{}) { // whoever took it has died
		return session.Lease{}, errors.Join(err, s.Abandon(context.WithoutCancel(ctx), key, lease))
	}
	return lease, err
}

func (s inOneWrite) AppendRelease(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	return s.write(ctx, key, seq, events, func(ctx context.Context, events []*event.Event) error {
		return s.Store.(session.Releaser).AppendRelease(ctx, key, seq, lease, events...)
	})
}

// write stores events, and dies before or behind that if its time has come.
func (s *propertyStore) write(ctx context.Context, key session.Key, seq int64, events []*event.Event, store func(context.Context, []*event.Event) error) error {
	s.mu.Lock()
	if s.left > 0 {
		s.left--
	}
	dead, dies := s.died, s.left == 0
	if dies {
		s.died = true
	}
	s.mu.Unlock()
	if dead || dies && !s.lost {
		return errStoreDied
	}
	if key == s1 {
		s.written.Store(seq + int64(len(events)))
	}
	if s.codec {
		ctx = context.WithoutCancel(ctx) // a store may make a write although nobody waits for it any more
		decoded := make([]*event.Event, len(events))
		for i, e := range events {
			data, err := e.MarshalJSON() // as stores do
			if err != nil {
				return err
			}
			decoded[i] = new(event.Event)
			if err := decoded[i].UnmarshalJSON(data); err != nil {
				return err
			}
		}
		events = decoded
	}
	if err := store(ctx, events); err != nil || !dies {
		return err
	}
	return errStoreDied
}

// PutBlob fails while the store is dead. Bytes that nobody names matter to nothing.
func (s *propertyStore) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	s.mu.Lock()
	dead := s.died
	s.mu.Unlock()
	if dead {
		return "", errStoreDied
	}
	return s.Store.PutBlob(ctx, key, lease, data)
}
