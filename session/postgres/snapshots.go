package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/agentarbor/arbor/session"
)

var _ session.Snapshots = (*Store)(nil)

const (
	// One statement, and so one transaction, which does not wait for the server's disk.
	putSnapshotsSQL = `WITH head AS (
			SELECT key, seq, set_config('synchronous_commit', 'off', true) FROM arbor.session
			WHERE key = $1 AND lease_token = $2 AND lease_until IS NOT NULL AND app = $3 AND user_id = $4 AND id = $5 FOR KEY SHARE
		), new AS (
			SELECT head.key AS session, n.* FROM head, unnest($6::text[], $7::bigint[], $8::bigint[], $9::bytea[]) AS n (name, part, seq, data)
			WHERE head.seq >= $10
		), cut AS (
			DELETE FROM arbor.snapshot o USING new WHERE o.session = new.session AND o.name = new.name AND o.part > new.part
		), put AS (
			INSERT INTO arbor.snapshot (session, name, part, seq, data) SELECT session, name, part, seq, data FROM new
			ON CONFLICT (session, name, part) DO UPDATE SET seq = excluded.seq, data = excluded.data
		) SELECT seq FROM head`
	// In pieces, because the buffer for a message is as large as the message, and larger; the server reads no more of a
	// value than the piece.
	snapshotsSQL = `SELECT o.part, o.seq, octet_length(o.data), substring(o.data FROM at FOR $5)
		FROM arbor.session s JOIN arbor.snapshot o ON o.session = s.key, generate_series(1, greatest(octet_length(o.data), 1), $5) at
		WHERE s.app = $1 AND s.user_id = $2 AND s.id = $3 AND o.name = $4 ORDER BY o.part, at`
	snapshotPiece = 63 << 10
)

// PutSnapshots implements [session.Snapshots]. It waits for the server's answer, and not for its disk. To
// store the same twice is harmless, and so it is tried again when the connection breaks.
func (s *Store) PutSnapshots(ctx context.Context, key session.Key, lease session.Lease, parts ...session.Snapshot) error {
	if err := errors.Join(checkKey(key), session.CheckSnapshots(key, parts)); err != nil {
		return err
	}
	var names []string
	var numbers, seqs []int64
	var data [][]byte
	latest := int64(0)
	for _, p := range parts {
		names, numbers, seqs, data = append(names, p.Name), append(numbers, p.Part), append(seqs, p.Seq), append(data, []byte(p.Data))
		latest = max(latest, p.Seq)
	}
	row, n := splitToken(lease.Token)
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var seq int64
		err := conn.QueryRow(ctx, putSnapshotsSQL, row, n, key.App, key.User, key.ID, names, numbers, seqs, data, latest).Scan(&seq)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return session.LeaseLost(key)
		case err == nil && seq < latest:
			return session.SnapshotTooNew(key, seq)
		}
		return err
	})
	return s.explain("store a snapshot in", err)
}

// Snapshots implements [session.Snapshots].
func (s *Store) Snapshots(ctx context.Context, key session.Key, name string) (parts []session.Snapshot, err error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		parts = nil
		rows, err := conn.Query(ctx, snapshotsSQL, key.App, key.User, key.ID, name, snapshotPiece)
		if err != nil {
			return err
		}
		p := session.Snapshot{Name: name}
		var size int
		var piece pgtype.DriverBytes // valid until the next row
		var data strings.Builder
		_, err = pgx.ForEachRow(rows, []any{&p.Part, &p.Seq, &size, &piece}, func() error {
			if data.Len() == 0 {
				data.Grow(size)
			}
			if data.Write(piece); data.Len() == size {
				p.Data = data.String()
				parts = append(parts, p)
				data.Reset()
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, s.explain("read a snapshot from", err)
	}
	return parts, nil
}
