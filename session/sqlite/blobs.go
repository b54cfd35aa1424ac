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
	err := s.writes.exclusive(ctx, func(w *logWriter) error {
		row, err := w.row(key)
		if err == nil {
			err = row.Change(key, &session.Write{Lease: lease}, 0, s.now())
		}
		if err == nil {
			_, err = w.putBlob.ExecContext(context.Background(), row.Incarnation, digest, row.Head.Seq, data)
		}
		return err
	})
	return digest, s.file.explain("store a file in", err)
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
		return nil, s.file.explain("read a file from", s.reader.failed(ctx, err))
	case !found:
		return nil, session.NoBlob(key, digest)
	}
	return session.WholeBlob(key, digest, data)
}
