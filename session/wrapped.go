package session

import (
	"context"

	"github.com/agentarbor/arbor/event"
)

// Wrapped is the store that another one wraps. Who embeds it passes on what it does not do itself, and that is
// more than a [Store] has: it is an [Acquirer] and a [Releaser] as far as the store is one, and [SnapshotsOf] finds the
// store's snapshots. One that has an Append of its own also needs an AcquireAppend and an AppendRelease of its own, which
// would append past it otherwise. It is no [Tail]: a tail goes around it, not into it. It is safe for
// concurrent use as its store is, which must not be nil.
type Wrapped struct{ Store }

// Unwrap returns the store.
func (w Wrapped) Unwrap() Store { return w.Store }

// AcquireAppend implements [Acquirer]. To a store that is none no session is as expected: the error is
// [agent.ErrConflict], and Acquire and Append do the same with a write more.
func (w Wrapped) AcquireAppend(ctx context.Context, key Key, owner Owner, expected Lease, events ...*event.Event) (Lease, error) {
	if a, ok := w.Store.(Acquirer); ok {
		return a.AcquireAppend(ctx, key, owner, expected, events...)
	}
	return Lease{}, Unexpected(key)
}

// AppendRelease implements [Releaser]. A store that is none gets an Append and a Release. If that Release fails, which is no
// error since the events are stored, the lease ends by itself.
func (w Wrapped) AppendRelease(ctx context.Context, key Key, expectedSeq int64, lease Lease, events ...*event.Event) error {
	if r, ok := w.Store.(Releaser); ok {
		return r.AppendRelease(ctx, key, expectedSeq, lease, events...)
	}
	if len(events) == 0 {
		return w.Release(ctx, key, lease)
	}
	if err := w.Append(ctx, key, expectedSeq, lease, events...); err != nil {
		return err
	}
	_ = w.Release(context.WithoutCancel(ctx), key, lease)
	return nil
}

// AcquirerOf returns a store as an [Acquirer]. It is nil for one that is none, and for one that wraps such a store and so could
// only refuse. A store that wraps one or several others and leaves their sessions as they are implements
// Unwrap() Store or Unwrap() []Store.
func AcquirerOf(store Store) Acquirer {
	a, _ := throughout[Acquirer](store)
	return a
}

// ReleaserOf is what [AcquirerOf] is, for a [Releaser].
func ReleaserOf(store Store) Releaser {
	r, _ := throughout[Releaser](store)
	return r
}

// throughout returns a store as what it is, if all that it wraps are the same.
func throughout[T any](store Store) (as T, ok bool) {
	as, ok = store.(T)
	if !ok {
		return as, false
	}
	var below []Store
	switch w := store.(type) {
	case interface{ Unwrap() Store }:
		below = []Store{w.Unwrap()}
	case interface{ Unwrap() []Store }:
		below = w.Unwrap()
	}
	for _, s := range below {
		if _, ok := throughout[T](s); !ok {
			var none T
			return none, false
		}
	}
	return as, true
}
