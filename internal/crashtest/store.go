package crashtest

import (
	"context"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// watchedStore tells the odometer of every write.
type watchedStore struct {
	session.Wrapped
	odometer *Odometer
}

func (s watchedStore) Acquire(ctx context.Context, key session.Key, owner session.Owner) (session.Lease, error) {
	s.odometer.Pass(OnWrite)
	lease, err := s.Store.Acquire(ctx, key, owner)
	s.odometer.Pass(OnWritten)
	return lease, err
}

func (s watchedStore) AcquireAppend(ctx context.Context, key session.Key, owner session.Owner, expected session.Lease, events ...*event.Event) (session.Lease, error) {
	s.odometer.Pass(OnWrite)
	lease, err := s.Wrapped.AcquireAppend(ctx, key, owner, expected, events...)
	s.odometer.Pass(OnWritten)
	return lease, err
}

func (s watchedStore) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	s.odometer.Pass(OnWrite)
	err := s.Store.Append(ctx, key, seq, lease, events...)
	s.odometer.Pass(OnWritten)
	return err
}

func (s watchedStore) AppendRelease(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	s.odometer.Pass(OnWrite)
	err := s.Wrapped.AppendRelease(ctx, key, seq, lease, events...)
	s.odometer.Pass(OnWritten)
	return err
}

func (s watchedStore) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	s.odometer.Pass(OnWrite)
	digest, err := s.Store.PutBlob(ctx, key, lease, data)
	s.odometer.Pass(OnWritten)
	return digest, err
}

func (s watchedStore) PutSnapshots(ctx context.Context, key session.Key, lease session.Lease, parts ...session.Snapshot) error {
	s.odometer.Pass(OnWrite)
	err := session.SnapshotsOf(s.Store).PutSnapshots(ctx, key, lease, parts...)
	s.odometer.Pass(OnWritten)
	return err
}

func (s watchedStore) Snapshots(ctx context.Context, key session.Key, name string) ([]session.Snapshot, error) {
	return session.SnapshotsOf(s.Store).Snapshots(ctx, key, name)
}

func (s watchedStore) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	s.odometer.Pass(OnWrite)
	err := s.Store.Release(ctx, key, lease)
	s.odometer.Pass(OnWritten)
	return err
}

func (s watchedStore) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	s.odometer.Pass(OnWrite)
	err := s.Store.Abandon(ctx, key, lease)
	s.odometer.Pass(OnWritten)
	return err
}
