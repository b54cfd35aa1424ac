package sqlite

import (
	"context"

	"github.com/agentarbor/arbor/session"
)

const (
	putBlobSQL = "INSERT INTO blob (session, digest, seq, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
	blobSQL    = `WITH RECURSIVE line (key, parent, shared, before) AS (
			SELECT key, parent_key, parent_seq, 9223372036854775807 FROM session WHERE app = ? AND user = ? AND id = ?
			UNION ALL
			SELECT s.key, s.parent_key, s.parent_seq, min(line.before, line.shared) FROM line CROSS JOIN session s ON s.key = line.parent)
		SELECT data FROM line CROSS JOIN blob ON blob.session = line.key WHERE blob.digest = ? AND blob.seq < before LIMIT 1`
)

// PutBlob implements [session.Blobs]. It returns after an fsync.
func (s *Store) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	digest := session.Digest(data)
	if data == nil {
		data = []byte{} // nil is NULL
	}
	err := s.writes.exclusive(ctx, func(w *writer) error {
		row, err := w.row(key)
		if err == nil {
			err = row.Change(key, &session.Write{Lease: lease}, 0, s.now())
		}
		if err == nil {
			err = w.exec(putBlobSQL, row.Incarnation, digest, row.Head.Seq, data)
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
	found, err := s.reader.one(ctx, blobSQL, []any{key.App, key.User, key.ID, digest}, &data)
	switch {
	case err != nil:
		return nil, s.failed(ctx, "read a file from", err)
	case !found:
		return nil, session.NoBlob(key, digest)
	}
	return session.WholeBlob(key, digest, data)
}
