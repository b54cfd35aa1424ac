package sessiontest

import (
	"context"
	"errors"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Acquire acquires a session's lease. The zero owner stands for this process.
func Acquire(ctx context.Context, store session.Store, key session.Key, owner session.Owner) (session.Lease, error) {
	if owner == (session.Owner{}) {
		owner = session.Self()
	}
	return store.Write(ctx, key, session.Write{Acquire: owner})
}

// Append stores events after the event at seq, whatever the id of that event.
func Append(ctx context.Context, store session.Store, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	_, err := store.Write(ctx, key, session.Write{Lease: lease, Head: head(ctx, store, key, seq, lease), Events: events})
	return err
}

// Begin acquires a session's lease in the write that stores events after the event at seq.
func Begin(ctx context.Context, store session.Store, key session.Key, seq int64, events ...*event.Event) (session.Lease, error) {
	at := head(context.WithoutCancel(ctx), store, key, seq, session.Lease{})
	return store.Write(ctx, key, session.Write{Acquire: session.Self(), Head: at, Events: events})
}

// Finish releases a lease in the write that stores events after the event at seq.
func Finish(ctx context.Context, store session.Store, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	at := head(context.WithoutCancel(ctx), store, key, seq, lease)
	_, err := store.Write(ctx, key, session.Write{Lease: lease, Head: at, Events: events, Release: true})
	return err
}

// head returns the head of a log as if it ended at seq.
func head(ctx context.Context, store session.Store, key session.Key, seq int64, lease session.Lease) session.Head {
	if lease.Head.Seq == seq {
		return lease.Head
	}
	for e, err := range store.Load(ctx, key, max(seq-1, 0)) {
		if err == nil && e.Seq == seq {
			return session.HeadOf(e)
		}
		break
	}
	return session.Head{Seq: seq}
}

// Renew prolongs a lease.
func Renew(ctx context.Context, store session.Store, key session.Key, lease session.Lease) error {
	_, err := store.Write(ctx, key, session.Write{Lease: lease})
	return err
}

// Release releases a lease. If the lease is lost, Release does nothing.
func Release(ctx context.Context, store session.Store, key session.Key, lease session.Lease) error {
	_, err := store.Write(context.WithoutCancel(ctx), key, session.Write{Lease: lease, Release: true})
	if errors.Is(err, agent.ErrConflict) {
		return nil
	}
	return err
}
