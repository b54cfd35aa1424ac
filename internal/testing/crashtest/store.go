package crashtest

import (
	"context"

	"github.com/agentarbor/arbor/session"
)

// watchedStore reports every write to the odometer.
type watchedStore struct {
	session.Store
	odometer *Odometer
}

func (s watchedStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	s.odometer.Pass(onWrite)
	lease, err := s.Store.Write(ctx, key, w)
	s.odometer.Pass(onWritten)
	return lease, err
}

func (s watchedStore) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	s.odometer.Pass(onWrite)
	digest, err := s.Store.PutBlob(ctx, key, lease, data)
	s.odometer.Pass(onWritten)
	return digest, err
}
