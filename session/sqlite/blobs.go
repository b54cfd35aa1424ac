package sqlite

import (
	"context"

	"github.com/agentarbor/arbor/session"
)

// PutBlob implements [session.Blobs]. It returns after an fsync.
func (s *Store) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	digest := session.Digest(data)
	if data == nil {
		data = []byte{} // nil is NULL
	}
	row, n := splitToken(lease.Token)
	holder := []any{row, n, key.App, key.User, key.ID}
	err := s.write(ctx, func() error {
		return s.transaction(func() error {
			var seq int64
			held, err := queryOne(context.Background(), s.log.holder, holder, &seq)
			if err == nil && !held {
				return session.LeaseLost(key)
			}
			if err == nil {
				_, err = s.log.putBlob.ExecContext(context.Background(), append([]any{digest, data}, holder...)...)
			}
			return err
		})
	})
	return digest, s.explain("store a file in", err)
}

// Blob implements [session.Blobs].
func (s *Store) Blob(ctx context.Context, key session.Key, digest string) ([]byte, error) {
	if !session.IsDigest(digest) {
		return nil, session.NoBlob(key, digest)
	}
	var data []byte
	found, err := queryOne(ctx, s.reader.blob, []any{key.App, key.User, key.ID, digest}, &data)
	switch {
	case err != nil:
		return nil, s.explain("read a file from", s.readError(ctx, err))
	case !found:
		return nil, session.NoBlob(key, digest)
	}
	return session.WholeBlob(key, digest, data)
}
