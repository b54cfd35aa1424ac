package sqlite

import (
	"context"
	"database/sql"

	"github.com/agentarbor/arbor/session"
)

var _ session.Snapshots = (*Store)(nil)

// snapshotWriter is the statements that store snapshots, on the connection for leases: a snapshot
// that a crash of the system takes away costs time, and is not worth an fsync.
type snapshotWriter struct {
	begin, commit, rollback *sql.Stmt
	seq, drop, put          *sql.Stmt
}

func newSnapshotWriter(p *preparer) *snapshotWriter {
	return &snapshotWriter{
		begin:    p.prepare("BEGIN IMMEDIATE"),
		commit:   p.prepare("COMMIT"),
		rollback: p.prepare("ROLLBACK"),
		seq: p.prepare(`SELECT seq FROM session
			WHERE key = ? AND lease_token = ? AND lease_until IS NOT NULL AND app = ? AND user = ? AND id = ?`),
		drop: p.prepare("DELETE FROM snapshot WHERE session = ? AND name = ? AND part >= ?"),
		put:  p.prepare("INSERT INTO snapshot (session, name, part, seq, data) VALUES (?, ?, ?, ?, ?)"),
	}
}

// PutSnapshots implements [session.Snapshots]. It waits for no fsync.
func (s *Store) PutSnapshots(ctx context.Context, key session.Key, lease session.Lease, parts ...session.Snapshot) error {
	if err := session.CheckSnapshots(key, parts); err != nil {
		return err
	}
	err := s.write(ctx, func() error {
		w := s.snapshots
		if _, err := w.begin.ExecContext(context.Background()); err != nil {
			return err
		}
		err := s.putSnapshots(key, lease, parts)
		if err == nil {
			_, err = w.commit.ExecContext(context.Background())
		}
		if err != nil {
			_, _ = w.rollback.ExecContext(context.Background()) // fails if SQLite has done so itself
		}
		return err
	})
	return s.explain("store a snapshot in", err)
}

func (s *Store) putSnapshots(key session.Key, lease session.Lease, parts []session.Snapshot) error {
	ctx, w := context.Background(), s.snapshots
	row, n := splitToken(lease.Token)
	var seq int64
	held, err := queryOne(ctx, w.seq, []any{row, n, key.App, key.User, key.ID}, &seq)
	switch {
	case err != nil:
		return err
	case !held:
		return session.LeaseLost(key)
	}
	for _, p := range parts {
		if p.Seq > seq {
			return session.SnapshotTooNew(key, seq)
		}
		if _, err := w.drop.ExecContext(ctx, row, p.Name, p.Part); err != nil {
			return err
		}
		if _, err := w.put.ExecContext(ctx, row, p.Name, p.Part, p.Seq, []byte(p.Data)); err != nil {
			return err
		}
	}
	return nil
}

// Snapshots implements [session.Snapshots].
func (s *Store) Snapshots(ctx context.Context, key session.Key, name string) (parts []session.Snapshot, err error) {
	err = s.each(ctx, s.reader.snapshots, []any{key.App, key.User, key.ID, name}, func(rows *sql.Rows) error {
		p := session.Snapshot{Name: name}
		if err := rows.Scan(&p.Part, &p.Seq, &p.Data); err != nil {
			return err
		}
		parts = append(parts, p)
		return nil
	})
	if err != nil {
		return nil, s.explain("read a snapshot from", err)
	}
	return parts, nil
}
