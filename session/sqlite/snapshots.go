package sqlite

import (
	"context"

	"github.com/agentarbor/arbor/session"
)

// A session has one snapshot, whose name and part are always the same. The driver copies a text once, and a blob
// twice.
const (
	snapshotSQL = `SELECT o.seq, CAST(o.data AS TEXT) FROM session s CROSS JOIN snapshot o ON o.session = s.key
		WHERE s.app = ? AND s.user = ? AND s.id = ? AND o.name = 'document' AND o.part = 0`
	putSQL = `INSERT INTO snapshot (session, name, part, seq, data) VALUES (?, 'document', 0, ?, ?)
		ON CONFLICT DO UPDATE SET seq = excluded.seq, data = excluded.data`
)

// KeepsSnapshots implements [session.Store].
func (s *Store) KeepsSnapshots() bool { return true }

// Snapshot implements [session.Store].
func (s *Store) Snapshot(ctx context.Context, key session.Key) (found session.Snapshot, err error) {
	if _, err := s.reader.one(ctx, snapshotSQL, []any{key.App, key.User, key.ID}, &found.Seq, &found.Data); err != nil {
		return session.Snapshot{}, s.failed(ctx, "read a snapshot from", err)
	}
	return found, nil
}
