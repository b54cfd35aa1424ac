package sharded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Acquire implements [session.Store].
func (s *Store) Acquire(ctx context.Context, key session.Key, owner session.Owner) (session.Lease, error) {
	if err := free(key); err != nil {
		return session.Lease{}, err
	}
	homes := s.homes(key.App, key.User)
	x, moving := homes[len(homes)-1], len(homes) > 1
	if moving {
		var ok bool
		var err error
		if x, _, ok, err = s.find(ctx, key); err != nil {
			return session.Lease{}, err
		}
		if !ok { // somebody may hold it where it was, and not have stored anything yet
			guard, err := homes[0].Acquire(ctx, key, owner)
			if err != nil {
				return session.Lease{}, homes[0].explain(err)
			}
			defer func() { _ = homes[0].Release(ctx, key, guard) }()
		}
	}
	lease, err := x.Acquire(ctx, key, owner)
	if err == nil && lease.Seq == 0 && (lease.Fork || moving) { // a note, or it was moved a moment ago
		to, _, _, e := s.find(ctx, key)
		if to != x || e != nil {
			if err = errors.Join(e, x.Release(ctx, key, lease)); err != nil {
				return session.Lease{}, x.explain(err)
			}
			x = to
			lease, err = x.Acquire(ctx, key, owner)
		}
	}
	if err != nil {
		return session.Lease{}, x.explain(err)
	}
	return x.lent(lease), nil
}

// AcquireAppend implements [session.Acquirer], on each shard that the session may be on: an incarnation is known on one of them
// alone, and those of copies that are not the session yet to nobody. Without events it may be on neither.
func (s *Store) AcquireAppend(ctx context.Context, key session.Key, owner session.Owner, expected session.Lease, events ...*event.Event) (session.Lease, error) {
	homes, err := s.homes(key.App, key.User), free(key)
	if err != nil || len(homes) > 1 && expected.Seq == 0 {
		return session.Lease{}, cmp.Or(err, session.Unexpected(key))
	}
	for _, x := range homes {
		there := session.Lease{Seq: expected.Seq, Incarnation: expected.Incarnation ^ x.mark}
		var lease session.Lease
		taken := false
		err = s.sharing(ctx, x, key, events, func() (err error) {
			lease, err = x.AcquireAppend(ctx, key, owner, there, events...)
			taken = err == nil
			return err
		})
		switch {
		case taken && err != nil: // the events are stored, but not all of the state: whoever goes on with them takes a lease
			return session.Lease{}, errors.Join(err, x.explain(x.Abandon(ctx, key, lease)))
		case taken:
			return x.lent(lease), nil
		case !errors.Is(err, agent.ErrConflict):
			return session.Lease{}, err
		}
	}
	return session.Lease{}, err
}

// lent returns a lease of a shard as it is given to others.
func (x *shard) lent(lease session.Lease) session.Lease {
	lease.Shard, lease.Incarnation = x.name, lease.Incarnation^x.mark
	return lease
}

// held does something with a lease on the shard that gave it.
func (s *Store) held(key session.Key, lease session.Lease, do func(*shard, session.Lease) error) error {
	x := s.named(lease.Shard)
	if x == nil {
		return session.LeaseLost(key)
	}
	lease.Shard, lease.Incarnation = "", lease.Incarnation^x.mark
	return do(x, lease)
}

// Append implements [session.Store].
func (s *Store) Append(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, events ...*event.Event) error {
	return s.held(key, lease, func(x *shard, lease session.Lease) error {
		return s.sharing(ctx, x, key, events, func() error { return x.Append(ctx, key, expectedSeq, lease, events...) })
	})
}

// AppendRelease implements [session.Releaser].
func (s *Store) AppendRelease(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, events ...*event.Event) error {
	if len(events) == 0 {
		return s.Release(ctx, key, lease)
	}
	return s.held(key, lease, func(x *shard, lease session.Lease) error {
		return s.sharing(ctx, x, key, events, func() error { return x.AppendRelease(ctx, key, expectedSeq, lease, events...) })
	})
}

// Renew implements [session.Store].
func (s *Store) Renew(ctx context.Context, key session.Key, lease session.Lease) error {
	return s.held(key, lease, func(x *shard, lease session.Lease) error { return x.explain(x.Renew(ctx, key, lease)) })
}

// Release implements [session.Store].
func (s *Store) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	if s.named(lease.Shard) == nil {
		return nil
	}
	return s.held(key, lease, func(x *shard, lease session.Lease) error { return x.explain(x.Release(ctx, key, lease)) })
}

// Abandon implements [session.Store].
func (s *Store) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	if s.named(lease.Shard) == nil {
		return nil
	}
	return s.held(key, lease, func(x *shard, lease session.Lease) error { return x.explain(x.Abandon(ctx, key, lease)) })
}

// read tries where a session may be until something is found.
func (s *Store) read(ctx context.Context, key session.Key, try func(x *shard, last bool) (found bool, err error)) error {
	homes := s.homes(key.App, key.User)
	for i, x := range homes {
		if found, err := try(x, i == len(homes)-1); found || err != nil {
			return x.explain(err)
		}
	}
	x, _, _, err := s.find(ctx, key)
	if err != nil || slices.Contains(homes, x) {
		return err
	}
	_, err = try(x, true)
	return x.explain(err)
}

var errStopped = errors.New("the loop was left")

// Load implements [session.Store]. One that finds nothing asks once more whether the session is on another shard.
func (s *Store) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		var deleted error
		after, found := after, false
		err := s.read(ctx, key, func(x *shard, last bool) (bool, error) {
			for e, err := range x.Load(ctx, key, after) {
				if errors.Is(err, agent.ErrConflict) && !last { // or it was moved, and goes on elsewhere
					deleted = err
					return false, nil
				}
				if err != nil {
					return found, err
				}
				if !yield(e, nil) {
					return found, errStopped
				}
				after, found, deleted = e.Seq, true, nil
			}
			return found && last, deleted
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// PutBlob implements [session.Blobs].
func (s *Store) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (digest string, err error) {
	err = s.held(key, lease, func(x *shard, lease session.Lease) (err error) {
		digest, err = x.PutBlob(ctx, key, lease, data)
		return x.explain(err)
	})
	return digest, err
}

// Blob implements [session.Blobs].
func (s *Store) Blob(ctx context.Context, key session.Key, digest string) (data []byte, err error) {
	missing := session.NoBlob(key, digest)
	err = s.read(ctx, key, func(x *shard, _ bool) (bool, error) {
		var err error
		if data, err = x.Blob(ctx, key, digest); errors.Is(err, agent.ErrNoFile) {
			return false, nil
		}
		missing = nil
		return true, err
	})
	return data, cmp.Or(err, missing)
}

// PutSnapshots implements [session.Snapshots].
func (s *Store) PutSnapshots(ctx context.Context, key session.Key, lease session.Lease, parts ...session.Snapshot) error {
	return s.held(key, lease, func(x *shard, lease session.Lease) error {
		return x.explain(session.SnapshotsOf(x.Store).PutSnapshots(ctx, key, lease, parts...))
	})
}

// Snapshots implements [session.Snapshots].
func (s *Store) Snapshots(ctx context.Context, key session.Key, name string) (parts []session.Snapshot, err error) {
	err = s.read(ctx, key, func(x *shard, _ bool) (bool, error) {
		parts, err = session.SnapshotsOf(x.Store).Snapshots(ctx, key, name)
		return len(parts) > 0, err
	})
	return parts, err
}

// Fork implements [session.Store]. The fork is on the shard of the other session.
func (s *Store) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	if err := cmp.Or(free(to), free(of)); err != nil {
		return err
	}
	x, _, _, err := s.find(ctx, of)
	if err != nil {
		return err
	}
	if _, _, exists, err := s.find(ctx, to); err != nil || exists {
		if exists {
			err = fmt.Errorf("session %s exists already: %w", to, agent.ErrConflict)
		}
		return err
	}
	homes := s.homes(to.App, to.User)
	home := homes[len(homes)-1]
	if x != home {
		if err := home.point(ctx, to, x); err != nil {
			return err
		}
	}
	err = s.sharing(ctx, x, to, events, func() error { return x.Fork(ctx, of, seq, to, events...) })
	if err != nil && x != home {
		err = errors.Join(err, home.Delete(context.WithoutCancel(ctx), to))
	}
	return err
}

// point notes that a session is on another shard, and that its user has one there.
func (x *shard) point(ctx context.Context, key session.Key, on *shard) error {
	if err := x.note(ctx, "", stray(key, on)); err != nil && !errors.Is(err, agent.ErrConflict) {
		return err
	}
	return x.note(ctx, on.name, key)
}

// stray is the key of a note that says of a user that there are sessions on another shard.
func stray(of session.Key, on *shard) session.Key {
	return session.Key{App: App, User: fmt.Sprintf("%x", score("user", of.App, of.User)), ID: on.name}
}

// Delete implements [session.Store].
func (s *Store) Delete(ctx context.Context, key session.Key) error {
	homes := s.homes(key.App, key.User)
	x, _, _, err := s.find(ctx, key)
	if err != nil {
		return err
	}
	// A copy that is not the session yet must not become it, and so goes first, and once more if it
	// has been made meanwhile. A note goes last.
	at := []*shard{homes[len(homes)-1], homes[0], homes[len(homes)-1]}
	if !slices.Contains(homes, x) {
		at = append([]*shard{x}, at...)
	}
	for _, x := range slices.Compact(at) {
		if err := x.Delete(ctx, key); err != nil {
			return x.explain(err)
		}
	}
	return nil
}

// Close implements [session.Store].
func (s *Store) Close() error {
	var errs []error
	for _, x := range s.shards {
		errs = append(errs, x.explain(x.Close()))
	}
	return errors.Join(errs...)
}
