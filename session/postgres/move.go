package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

var _ session.Mover = (*Store)(nil)

const (
	digestsSQL = `WITH RECURSIVE line (key, parent, shared, before) AS (
			SELECT key, parent_key, parent_seq, 9223372036854775807 FROM arbor.session WHERE app = $1 AND user_id = $2 AND id = $3
			UNION ALL
			SELECT s.key, s.parent_key, s.parent_seq, least(line.before, line.shared) FROM line JOIN arbor.session s ON s.key = line.parent)
		SELECT b.digest, min(b.seq) FROM line JOIN arbor.blob b ON b.session = line.key WHERE b.seq < line.before GROUP BY b.digest`
	lockHeldSQL = `SELECT key FROM arbor.session
		WHERE key = $1 AND lease_token = $2 AND lease_until IS NOT NULL AND app = $3 AND user_id = $4 AND id = $5 FOR UPDATE`
	// Keys of rows are the larger part of tokens. Nobody draws one while the sequence is locked.
	lastRowSQL  = `SELECT last_value FROM arbor.session_key_seq`
	lockRowsSQL = `ALTER SEQUENCE arbor.session_key_seq NO CYCLE`
	skipRowsSQL = `SELECT setval('arbor.session_key_seq', greatest(last_value, $1)) FROM arbor.session_key_seq`
	// A session that is being adopted is leased: nobody sees that.
	adoptSQL = `INSERT INTO arbor.session (app, user_id, id, seq, parent_key, parent_seq, lease_until)
		VALUES ($1, $2, $3, coalesce($5, 0), $4, $5, statement_timestamp()) RETURNING key, lease_token`
	adoptedSQL     = `UPDATE arbor.session SET lease_until = NULL, created = $2, updated = $3 WHERE key = $1`
	sameLineSQL    = `SELECT line = $3 FROM arbor.log WHERE session = $1 AND seq = $2`
	adoptedBlobSQL = `INSERT INTO arbor.blob (session, digest, seq, data) VALUES ($1, $2, $3, $4)`
)

// Digests implements [session.Mover].
func (s *Store) Digests(ctx context.Context, key session.Key) (map[string]int64, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	found := make(map[string]int64)
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, digestsSQL, key.App, key.User, key.ID)
		if err != nil {
			return err
		}
		var digest string
		var seq int64
		_, err = pgx.ForEachRow(rows, []any{&digest, &seq}, func() error { found[digest] = seq; return nil })
		return err
	})
	return found, s.explain("list the files of a session in", err)
}

// Adopt implements [session.Mover], in one transaction. If the connection breaks while it is
// committed, the error may be that the lease was lost, although the session is there.
func (s *Store) Adopt(ctx context.Context, key session.Key, lease session.Lease, moved session.Moved) error {
	if err := errors.Join(checkKey(key), moved.Check(key)); err != nil {
		return err
	}
	err := s.skipRows(ctx, moved.Lease.Token>>32)
	if err == nil {
		err = s.transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := held(ctx, tx, key, lease); err != nil {
				return err
			}
			return s.adopt(ctx, tx, key, lease, moved)
		})
	}
	return s.explain("adopt a session in", err)
}

// skipRows makes the keys of later rows larger than a number.
func (s *Store) skipRows(ctx context.Context, floor int64) error {
	var last int64
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, lastRowSQL).Scan(&last) })
	if err != nil || last >= floor {
		return err
	}
	return s.transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, lockRowsSQL)
		if err == nil {
			_, err = tx.Exec(ctx, skipRowsSQL, floor)
		}
		return err
	})
}

// held locks a session's row, whose lease must be the current one.
func held(ctx context.Context, tx pgx.Tx, key session.Key, lease session.Lease) error {
	row, n := splitToken(lease.Token)
	err := tx.QueryRow(ctx, lockHeldSQL, row, n, key.App, key.User, key.ID).Scan(&row)
	if errors.Is(err, pgx.ErrNoRows) {
		return session.LeaseLost(key)
	}
	return err
}

func (s *Store) adopt(ctx context.Context, tx pgx.Tx, key session.Key, lease session.Lease, moved session.Moved) error {
	past, own := moved.Split()
	var parent, shared *int64
	if moved.Lease.Fork {
		shared = &moved.Lease.Shared
		found, err := keeperOf(ctx, tx, moved.Parent, past)
		if err != nil {
			return err
		}
		parent = found
	}
	row, _ := splitToken(lease.Token)
	if err := collect(ctx, tx, row); err != nil {
		return err
	}
	if moved.Lease.Fork && parent == nil { // a past that nobody finds but through its fork
		row, err := s.adoptPart(ctx, tx, key, nil, nil, past, moved.Blobs, 0, *shared)
		if err == nil {
			_, err = tx.Exec(ctx, hideSQL, row)
		}
		if err != nil {
			return err
		}
		parent = &row
	}
	row, err := s.adoptPart(ctx, tx, key, parent, shared, own, moved.Blobs, moved.Lease.Shared, moved.Seq+1)
	if err == nil {
		_, err = tx.Exec(ctx, adoptedSQL, row, moved.Created, moved.Updated)
	}
	return err
}

// adoptPart makes a session of events, and of the bytes that were put between two positions, the second excluded.
func (s *Store) adoptPart(ctx context.Context, tx pgx.Tx, key session.Key, parent, shared *int64, events []*event.Event, blobs []session.MovedBlob, from, before int64) (int64, error) {
	a := &appending{key: key, seq: from, stateless: true}
	if err := tx.QueryRow(ctx, adoptSQL, key.App, key.User, key.ID, parent, shared).Scan(&a.row, &a.n); err != nil {
		return 0, err
	}
	if len(events) > 0 {
		err := s.encode(a, events, func(id, run string) (string, error) { return runOf(ctx, tx.Conn(), a.row, a.seq, id, run) })
		if err != nil {
			return 0, err
		}
		var stored int
		if err := tx.QueryRow(ctx, a.sql, a.args...).Scan(&stored); err != nil {
			return 0, err
		}
	}
	for _, b := range blobs {
		if b.Seq >= from && b.Seq < before {
			if _, err := tx.Exec(ctx, adoptedBlobSQL, a.row, session.Digest(b.Data), b.Seq, append([]byte{}, b.Data...)); err != nil {
				return 0, err
			}
		}
	}
	return a.row, nil
}

// keeperOf returns the row of the session whose own log holds the last one of the events, nil if
// the session of a key has not the same.
func keeperOf(ctx context.Context, tx pgx.Tx, of session.Key, events []*event.Event) (*int64, error) {
	seq := int64(len(events))
	var origin, keeper int64
	err := tx.QueryRow(ctx, originSQL, of.App, of.User, of.ID, seq).Scan(&origin)
	if err == nil {
		err = tx.QueryRow(ctx, keeperSQL, origin, seq).Scan(&keeper)
	}
	same := true
	if err == nil && seq > 0 {
		var line string
		if line, err = lineOf(events[seq-1]); err == nil {
			err = tx.QueryRow(ctx, sameLineSQL, keeper, seq, line).Scan(&same)
		}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && !same:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &keeper, nil
}

// Leave implements [session.Mover].
func (s *Store) Leave(ctx context.Context, key session.Key, lease session.Lease) error {
	if err := checkKey(key); err != nil {
		return err
	}
	err := s.transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := held(ctx, tx, key, lease); err != nil {
			return err
		}
		row, _ := splitToken(lease.Token)
		return collect(ctx, tx, row)
	})
	return s.explain("delete from", err)
}
