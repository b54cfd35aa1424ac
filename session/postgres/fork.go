package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// A transaction locks a session before its parent, so that transactions do not deadlock. It locks the
// row at a fork's own key only if that row is not a session yet, and therefore has no forks. (One
// deadlock is possible: a fork waits for its key while another transaction deletes the session at this
// key, which is itself a fork of the same parent. The server aborts one of the two, and the store
// tries it again.) While a session's row is locked, its parents and the events that they share stay.
const (
	originSQL = `SELECT key FROM arbor.session
		WHERE app = $1 AND user_id = $2 AND id = $3 AND created IS NOT NULL AND $4 BETWEEN 0 AND seq FOR KEY SHARE`
	// From the session up to the one whose own log contains the position.
	keeperSQL = `WITH RECURSIVE line (key, parent, shared) AS (
			SELECT key, parent_key, parent_seq FROM arbor.session WHERE key = $1
			UNION ALL
			SELECT s.key, s.parent_key, s.parent_seq FROM line JOIN arbor.session s ON s.key = line.parent WHERE $2 <= line.shared)
		SELECT key FROM line WHERE parent IS NULL OR $2 > shared`
	occupantSQL = `SELECT key, created IS NOT NULL, fork_nonce, coalesce(lease_until > coalesce($4, clock_timestamp())
				AND lease_until <= coalesce($4, clock_timestamp()) + $5::interval, false),
			coalesce(lease_host, ''), coalesce(lease_pid, 0), coalesce(lease_started, 0)
		FROM arbor.session WHERE app = $1 AND user_id = $2 AND id = $3`
	lockLeasedSQL = ` AND created IS NULL FOR UPDATE`
	// The fork has a lease while its own events are stored. Only this transaction sees it.
	forkSQL = `INSERT INTO arbor.session (app, user_id, id, seq, created, updated, parent_key, parent_seq, fork_nonce, lease_random, lease_until, status)
		SELECT $1, $2, $3, $4, now, now, $5, $4, $6, $6, now,
			coalesce((SELECT status FROM arbor.session WHERE key = $5 AND seq = $4 AND id IS NOT NULL), arbor.status_at($5, $4)) FROM (SELECT coalesce($7, statement_timestamp()) AS now) AS clock RETURNING key, lease_token`
	forkedSQL = `UPDATE arbor.session SET lease_until = NULL, updated = created WHERE key = $1`

	nameSQL = `SELECT key FROM arbor.session WHERE app = $1 AND user_id = $2 AND id = $3`
	hideSQL = `UPDATE arbor.session SET app = NULL, user_id = NULL, id = NULL, seq = 0, head = NULL, created = NULL, updated = NULL,
		lease_host = NULL, lease_pid = NULL, lease_started = NULL, lease_until = NULL WHERE key = $1 AND id IS NOT NULL`
	partSQL      = `SELECT parent_seq FROM arbor.session WHERE parent_key = $1 ORDER BY parent_seq DESC LIMIT 1`
	trimEventSQL = `DELETE FROM arbor.log WHERE session = $1 AND seq > $2`
	trimBlobSQL  = `DELETE FROM arbor.blob WHERE session = $1 AND seq >= $2`
	trimBlockSQL = `DELETE FROM arbor.block WHERE session = $1 AND first_seq > $2`
	removeSQL    = `DELETE FROM arbor.session WHERE key = $1 RETURNING coalesce(parent_key, 0)` // this also deletes its events
	hiddenSQL    = `SELECT id IS NULL FROM arbor.session WHERE key = $1 FOR UPDATE`
)

// Fork implements [session.Store]. It copies nothing: the new session's row refers to the session whose own log
// contains the last shared event. Finding that session takes one step for each fork on the way to it.
func (s *Store) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	if err := errors.Join(checkKey(of), checkKey(to), session.CheckEvents(to, seq, events)); err != nil {
		return err
	}
	nonce := rand.Int64()
	err := s.transaction(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.fork(ctx, tx, of, seq, to, nonce, events) })
	return s.explain("fork a session in", err)
}

func (s *Store) fork(ctx context.Context, tx pgx.Tx, of session.Key, seq int64, to session.Key, nonce int64, events []*event.Event) error {
	var origin, parent int64
	err := tx.QueryRow(ctx, originSQL, of.App, of.User, of.ID, seq).Scan(&origin)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("session %s has no position %d to fork at: %w", of, seq, agent.ErrBadInput)
	}
	if err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, keeperSQL, origin, seq).Scan(&parent); err != nil {
		return err
	}
	for _, lock := range []string{"", lockLeasedSQL} {
		old, err := occupant(ctx, tx, to, lock, s.time())
		if err != nil {
			return err
		}
		if old == nil {
			break
		}
		if old.nonce != nil && *old.nonce == nonce { // an earlier attempt, whose answer was lost
			return nil
		}
		if old.exists || old.leased && session.Alive(old.holder) {
			return fmt.Errorf("session %s exists already: %w", to, agent.ErrConflict)
		}
		if lock != "" { // the session only had a lease; its holder must not write to the fork
			if err := collect(ctx, tx, old.key); err != nil {
				return err
			}
		}
	}
	var row, token int64
	if err := tx.QueryRow(ctx, forkSQL, to.App, to.User, to.ID, seq, parent, nonce, s.time()).Scan(&row, &token); err != nil {
		return err
	}
	if len(events) > 0 {
		w := &session.Write{Lease: session.Lease{Token: token, Nonce: nonce}, Head: session.Head{Seq: seq}, Events: events}
		own := &change{key: to, write: w}
		if err := own.encode(func(id, run string) (string, error) { return runOf(ctx, tx.Conn(), row, seq, id, run) }); err != nil {
			return err
		}
		if _, err := s.change(ctx, tx.Conn(), own, false); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, forkedSQL, row)
	return err
}

// occupied is the row that exists at the key of a new fork.
type occupied struct {
	key            int64
	nonce          *int64
	exists, leased bool
	holder         session.Owner
}

// occupant returns the row at a key, or nil if there is none.
func occupant(ctx context.Context, tx pgx.Tx, key session.Key, lock string, now *time.Time) (*occupied, error) {
	var o occupied
	err := tx.QueryRow(ctx, occupantSQL+lock, key.App, key.User, key.ID, now, session.LeaseTTL).
		Scan(&o.key, &o.exists, &o.nonce, &o.leased, &o.holder.Host, &o.holder.PID, &o.holder.Started)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &o, err
}

// Delete implements [session.Store]. Events that forks share stay in the database, where only the forks refer to
// them.
func (s *Store) Delete(ctx context.Context, key session.Key) error {
	if err := checkKey(key); err != nil {
		return err
	}
	// The row is looked up once: if the answer of an attempt is lost, another
	// session may have the key at the next attempt.
	var row int64
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, nameSQL, key.App, key.User, key.ID).Scan(&row)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = s.transaction(ctx, func(ctx context.Context, tx pgx.Tx) error { return collect(ctx, tx, row) })
	}
	return s.explain("delete from", err)
}

// collect removes a session's key and everything that only this session uses: the events that no fork shares, and, if
// it has no forks, its row. It does the same for a deleted parent whose last fork it was.
func collect(ctx context.Context, tx pgx.Tx, row int64) error {
	if tag, err := tx.Exec(ctx, hideSQL, row); err != nil || tag.RowsAffected() == 0 {
		return err
	}
	for {
		var part int64
		err := tx.QueryRow(ctx, partSQL, row).Scan(&part)
		if err == nil { // it has forks
			for _, trim := range []string{trimEventSQL, trimBlockSQL, trimBlobSQL} {
				if _, err := tx.Exec(ctx, trim, row, part); err != nil {
					return err
				}
			}
			return nil
		}
		var parent int64
		if errors.Is(err, pgx.ErrNoRows) {
			err = tx.QueryRow(ctx, removeSQL, row).Scan(&parent)
		}
		if err != nil || parent == 0 {
			return err
		}
		var hidden bool
		if err := tx.QueryRow(ctx, hiddenSQL, parent).Scan(&hidden); err != nil || !hidden {
			return err
		}
		row = parent
	}
}
