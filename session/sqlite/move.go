package sqlite

import (
	"context"
	"database/sql"

	"github.com/agentarbor/arbor/session"
)

var _ session.Mover = (*Store)(nil)

const (
	digestsSQL = `WITH RECURSIVE line (key, parent, shared, before) AS (
			SELECT key, parent_key, parent_seq, 9223372036854775807 FROM session WHERE app = ? AND user = ? AND id = ?
			UNION ALL
			SELECT s.key, s.parent_key, s.parent_seq, min(line.before, line.shared) FROM line JOIN session s ON s.key = line.parent)
		SELECT b.digest, min(b.seq) FROM line JOIN blob b ON b.session = line.key WHERE b.seq < line.before GROUP BY b.digest`
	// Keys of rows are the larger part of tokens.
	adoptSQL = `INSERT INTO session (key, app, user, id, seq, created, updated, parent_key, parent_seq)
		VALUES (max(?, (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'session')) + 1, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`
	sameLineSQL    = "SELECT line = ? FROM log WHERE session = ? AND seq = ?"
	adoptedBlobSQL = "INSERT INTO blob (session, digest, seq, data) VALUES (?, ?, ?, ?)"
)

// Digests implements [session.Mover].
func (s *Store) Digests(ctx context.Context, key session.Key) (map[string]int64, error) {
	found := make(map[string]int64)
	err := s.readOnce(digestsSQL, func(stmt *sql.Stmt) error {
		return s.each(ctx, stmt, []any{key.App, key.User, key.ID}, func(rows *sql.Rows) error {
			var digest string
			var seq int64
			err := rows.Scan(&digest, &seq)
			found[digest] = seq
			return err
		})
	})
	return found, s.explain("list the files of a session in", err)
}

// Adopt implements [session.Mover]. It returns after an fsync.
func (s *Store) Adopt(ctx context.Context, key session.Key, lease session.Lease, moved session.Moved) error {
	if err := moved.Check(key); err != nil {
		return err
	}
	all, err := encode(key, 0, moved.Events)
	if err != nil {
		return err
	}
	err = s.write(ctx, func() error {
		return s.transaction(func() error { return s.adopt(key, lease, moved, all.lines) })
	})
	return s.explain("adopt a session in", err)
}

func (s *Store) adopt(key session.Key, lease session.Lease, moved session.Moved, lines []string) error {
	if err := s.held(key, lease); err != nil {
		return err
	}
	row, _ := splitToken(lease.Token)
	floor, _ := splitToken(moved.Lease.Token)
	past := moved.Lease.Shared
	var parent, shared any
	if moved.Lease.Fork {
		found, err := s.keeperOf(moved.Parent, lines[:past])
		if err != nil {
			return err
		}
		if shared = past; found == 0 { // a past that nobody finds but through its fork
			if found, err = s.adoptPart([]any{floor, nil, nil, nil, 0, nil, nil, nil, nil}, lines[:past], moved.Blobs, 0, past); err != nil {
				return err
			}
		}
		parent = found
	}
	if err := s.collect(row); err != nil {
		return err
	}
	_, err := s.adoptPart([]any{floor, key.App, key.User, key.ID, moved.Seq, moved.Created.UnixNano(), moved.Updated.UnixNano(), parent, shared},
		lines[past:], moved.Blobs, past, moved.Seq+1)
	return err
}

// adoptPart makes a row, and what belongs to it: lines from a position on, and the bytes that were put
// between two positions, the second excluded.
func (s *Store) adoptPart(of []any, lines []string, blobs []session.MovedBlob, from, before int64) (row int64, err error) {
	ctx := context.Background()
	if err := s.logOnce(adoptSQL, func(stmt *sql.Stmt) error {
		_, err := queryOne(ctx, stmt, of, &row)
		return err
	}); err != nil {
		return 0, err
	}
	if err := s.insert(row, &appending{seq: from, lines: lines}); err != nil {
		return 0, err
	}
	return row, s.logOnce(adoptedBlobSQL, func(stmt *sql.Stmt) error {
		for _, b := range blobs {
			if b.Seq >= from && b.Seq < before {
				if _, err := stmt.ExecContext(ctx, row, session.Digest(b.Data), b.Seq, append([]byte{}, b.Data...)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// keeperOf returns the row of the session whose own log holds the last one of the lines, 0 if the
// session of a key has not the same.
func (s *Store) keeperOf(of session.Key, lines []string) (row int64, err error) {
	ctx, seq := context.Background(), int64(len(lines))
	found, err := queryOne(ctx, s.log.keeper, []any{of.App, of.User, of.ID, seq}, &row)
	if err == nil && found && seq > 0 {
		err = s.logOnce(sameLineSQL, func(stmt *sql.Stmt) error {
			_, err := queryOne(ctx, stmt, []any{lines[seq-1], row, seq}, &found)
			return err
		})
	}
	if err != nil || !found {
		return 0, err
	}
	return row, nil
}

// held returns an error unless a lease is the current one. It must be the caller's turn to write.
func (s *Store) held(key session.Key, lease session.Lease) error {
	row, n := splitToken(lease.Token)
	var seq int64
	held, err := queryOne(context.Background(), s.log.holder, []any{row, n, key.App, key.User, key.ID}, &seq)
	if err == nil && !held {
		return session.LeaseLost(key)
	}
	return err
}

// Leave implements [session.Mover]. It returns after an fsync.
func (s *Store) Leave(ctx context.Context, key session.Key, lease session.Lease) error {
	err := s.write(ctx, func() error {
		return s.transaction(func() error {
			if err := s.held(key, lease); err != nil {
				return err
			}
			row, _ := splitToken(lease.Token)
			return s.collect(row)
		})
	})
	return s.explain("delete from", err)
}
