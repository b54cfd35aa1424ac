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
	if key.App == App {
		return session.Lease{}, fmt.Errorf("session %s: the app %s is the sharded store's own: %w", key, App, agent.ErrBadInput)
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
	lease.Shard, lease.Incarnation = x.name, lease.Incarnation^x.mark
	return lease, nil
}

// of returns the shard that gave a lease, and the lease as it was there.
func (s *Store) of(key session.Key, lease session.Lease) (*shard, session.Lease, error) {
	x := s.named(lease.Shard)
	if x == nil {
		return nil, lease, session.LeaseLost(key)
	}
	lease.Shard, lease.Incarnation = "", lease.Incarnation^x.mark
	return x, lease, nil
}

// Append implements [session.Store].
func (s *Store) Append(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, events ...*event.Event) error {
	return s.append(ctx, key, expectedSeq, lease, events, session.Store.Append)
}

// AppendRelease implements [session.Releaser]. A shard that is none gets an append and a release.
func (s *Store) AppendRelease(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, events ...*event.Event) error {
	if len(events) == 0 {
		return s.Release(ctx, key, lease)
	}
	return s.append(ctx, key, expectedSeq, lease, events, func(x session.Store, ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
		if r, ok := x.(session.Releaser); ok {
			return r.AppendRelease(ctx, key, seq, lease, events...)
		}
		if err := x.Append(ctx, key, seq, lease, events...); err != nil {
			return err
		}
		return x.Release(ctx, key, lease)
	})
}

type appendFunc func(session.Store, context.Context, session.Key, int64, session.Lease, ...*event.Event) error

func (s *Store) append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events []*event.Event, do appendFunc) error {
	x, lease, err := s.of(key, lease)
	if err != nil {
		return err
	}
	return s.sharing(ctx, x, key, events, func() error { return do(x.Store, ctx, key, seq, lease, events...) })
}

// Renew implements [session.Store].
func (s *Store) Renew(ctx context.Context, key session.Key, lease session.Lease) error {
	x, lease, err := s.of(key, lease)
	if err == nil {
		err = x.explain(x.Renew(ctx, key, lease))
	}
	return err
}

// Release implements [session.Store].
func (s *Store) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	if x, lease, err := s.of(key, lease); err == nil {
		return x.explain(x.Release(ctx, key, lease))
	}
	return nil
}

// Abandon implements [session.Store].
func (s *Store) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	if x, lease, err := s.of(key, lease); err == nil {
		return x.explain(x.Abandon(ctx, key, lease))
	}
	return nil
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
func (s *Store) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	x, lease, err := s.of(key, lease)
	if err != nil {
		return "", err
	}
	digest, err := x.PutBlob(ctx, key, lease, data)
	return digest, x.explain(err)
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

// KeepsSnapshots implements what [session.SnapshotsOf] looks for: all shards must keep them.
func (s *Store) KeepsSnapshots() bool {
	return !slices.ContainsFunc(s.shards, func(x *shard) bool { return session.SnapshotsOf(x.Store) == nil })
}

// PutSnapshots implements [session.Snapshots].
func (s *Store) PutSnapshots(ctx context.Context, key session.Key, lease session.Lease, parts ...session.Snapshot) error {
	x, lease, err := s.of(key, lease)
	if err == nil {
		err = x.explain(session.SnapshotsOf(x.Store).PutSnapshots(ctx, key, lease, parts...))
	}
	return err
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
	if to.App == App || of.App == App {
		return fmt.Errorf("session %s: the app %s is the sharded store's own: %w", to, App, agent.ErrBadInput)
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
