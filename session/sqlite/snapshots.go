package sqlite

import (
	"context"
	"database/sql"

	"github.com/agentarbor/arbor/session"
)

// The driver copies a text once, and a blob twice.
const snapshotsSQL = `SELECT o.part, o.seq, CAST(o.data AS TEXT) FROM session s CROSS JOIN snapshot o ON o.session = s.key
	WHERE s.app = ? AND s.user = ? AND s.id = ? AND o.name = ? ORDER BY o.part`

// KeepsSnapshots implements [session.Store].
func (s *Store) KeepsSnapshots() bool { return true }

// Snapshots implements [session.Store].
func (s *Store) Snapshots(ctx context.Context, key session.Key, name string) (parts []session.Snapshot, err error) {
	err = s.reader.each(ctx, snapshotsSQL, []any{key.App, key.User, key.ID, name}, func(rows *sql.Rows) error {
		p := session.Snapshot{Name: name}
		if err := rows.Scan(&p.Part, &p.Seq, &p.Data); err != nil {
			return err
		}
		parts = append(parts, p)
		return nil
	})
	if err != nil {
		return nil, s.failed(ctx, "read a snapshot from", err)
	}
	return parts, nil
}
