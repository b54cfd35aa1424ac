package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/agentarbor/arbor/session"
)

const (
	// The statement returns the data in pieces, because pgx's buffer is larger than the largest message. The server
	// reads only the piece of a value.
	snapshotsSQL = `SELECT o.part, o.seq, octet_length(o.data), substring(o.data FROM at FOR $5)
		FROM arbor.session s JOIN arbor.snapshot o ON o.session = s.key, generate_series(1, greatest(octet_length(o.data), 1), $5) at
		WHERE s.app = $1 AND s.user_id = $2 AND s.id = $3 AND o.name = $4 ORDER BY o.part, at`
	snapshotPiece = 63 << 10
)

// KeepsSnapshots implements [session.Store].
func (s *Store) KeepsSnapshots() bool { return true }

// Snapshots implements [session.Store].
func (s *Store) Snapshots(ctx context.Context, key session.Key, name string) (parts []session.Snapshot, err error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		parts = nil
		rows, _ := conn.Query(ctx, snapshotsSQL, key.App, key.User, key.ID, name, snapshotPiece)
		p := session.Snapshot{Name: name}
		var size int
		var piece pgtype.DriverBytes // valid until the next row
		var data strings.Builder
		_, err := pgx.ForEachRow(rows, []any{&p.Part, &p.Seq, &size, &piece}, func() error {
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
