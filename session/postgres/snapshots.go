package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/agentarbor/arbor/session"
)

// A session has one snapshot, whose name and part are always the same.
const (
	putSnapshotSQL = `, put AS (
		INSERT INTO arbor.snapshot (session, name, part, seq, data) SELECT key, 'document', 0, %s::bigint, %s::bytea FROM head
		ON CONFLICT (session, name, part) DO UPDATE SET seq = excluded.seq, data = excluded.data
	)`
	// The statement returns the data in pieces, because pgx's buffer is larger than the largest message. The server
	// reads only the piece of a value.
	snapshotSQL = `SELECT o.seq, octet_length(o.data), substring(o.data FROM at FOR $4)
		FROM arbor.session s JOIN arbor.snapshot o ON o.session = s.key, generate_series(1, octet_length(o.data), $4) at
		WHERE s.app = $1 AND s.user_id = $2 AND s.id = $3 AND o.name = 'document' AND o.part = 0 ORDER BY at`
	snapshotPiece = 63 << 10
)

// KeepsSnapshots implements [session.Store].
func (s *Store) KeepsSnapshots() bool { return true }

// Snapshot implements [session.Store].
func (s *Store) Snapshot(ctx context.Context, key session.Key) (found session.Snapshot, err error) {
	if err := checkKey(key); err != nil {
		return session.Snapshot{}, err
	}
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, snapshotSQL, key.App, key.User, key.ID, snapshotPiece)
		var size int
		var piece pgtype.DriverBytes // valid until the next row
		var data strings.Builder
		_, err := pgx.ForEachRow(rows, []any{&found.Seq, &size, &piece}, func() error {
			data.Grow(size - data.Len())
			data.Write(piece)
			return nil
		})
		found.Data = data.String()
		return err
	})
	if err != nil {
		return session.Snapshot{}, s.explain("read a snapshot from", err)
	}
	return found, nil
}
