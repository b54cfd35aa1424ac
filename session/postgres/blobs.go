package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/agentarbor/arbor/session"
)

const (
	putBlobSQL = `WITH head AS (
			SELECT key, seq FROM arbor.session
			WHERE app = $1 AND user_id = $2 AND id = $3 AND lease_token = $4 AND lease_random = $5 AND lease_until IS NOT NULL FOR KEY SHARE
		), put AS (
			INSERT INTO arbor.blob (session, digest, seq, data) SELECT key, $6, seq, $7 FROM head ON CONFLICT DO NOTHING
		) SELECT count(*) FROM head`
	blobSQL = `WITH RECURSIVE line (key, parent, shared, before) AS (
			SELECT key, parent_key, parent_seq, 9223372036854775807 FROM arbor.session WHERE app = $1 AND user_id = $2 AND id = $3
			UNION ALL
			SELECT s.key, s.parent_key, s.parent_seq, least(line.before, line.shared) FROM line JOIN arbor.session s ON s.key = line.parent)
		SELECT data FROM line JOIN arbor.blob b ON b.session = line.key WHERE b.digest = $4 AND b.seq < line.before LIMIT 1`
)

// PutBlob implements [session.Blobs]. It returns after the server's commit. Because storing the same bytes twice is
// harmless, it retries when the connection breaks.
func (s *Store) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	digest := session.Digest(data)
	if data == nil {
		data = []byte{} // nil is NULL
	}
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var held int
		err := conn.QueryRow(ctx, putBlobSQL, key.App, key.User, key.ID, lease.Token, lease.Nonce, digest, data).Scan(&held)
		if err == nil && held == 0 {
			return session.LeaseLost(key)
		}
		return err
	})
	return digest, s.explain("store a file in", err)
}

// Blob implements [session.Blobs].
func (s *Store) Blob(ctx context.Context, key session.Key, digest string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if !session.IsDigest(digest) {
		return nil, session.NoBlob(key, digest)
	}
	var data []byte
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, blobSQL, key.App, key.User, key.ID, digest).Scan(&data)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, session.NoBlob(key, digest)
	case err != nil:
		return nil, s.explain("read a file from", err)
	}
	return session.WholeBlob(key, digest, data)
}
