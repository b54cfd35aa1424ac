package sqlite

import (
	"context"
	"database/sql"

	"github.com/agentarbor/arbor/session"
)

// KeepsSnapshots implements [session.Store].
func (s *Store) KeepsSnapshots() bool { return true }

// Snapshots implements [session.Store].
func (s *Store) Snapshots(ctx context.Context, key session.Key, name string) (parts []session.Snapshot, err error) {
	err = s.reader.each(ctx, s.reader.snapshots, []any{key.App, key.User, key.ID, name}, func(rows *sql.Rows) error {
		p := session.Snapshot{Name: name}
		if err := rows.Scan(&p.Part, &p.Seq, &p.Data); err != nil {
			return err
		}
		parts = append(parts, p)
		return nil
	})
	if err != nil {
		return nil, s.file.explain("read a snapshot from", err)
	}
	return parts, nil
}
