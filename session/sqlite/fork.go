package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/rows"
)

const (
	// From the session up to the one whose own log contains the position.
	keeperSQL = `WITH RECURSIVE line (key, parent, shared) AS (
			SELECT key, parent_key, parent_seq FROM session
			WHERE app = ?1 AND user = ?2 AND id = ?3 AND created IS NOT NULL AND ?4 BETWEEN 0 AND seq
			UNION ALL
			SELECT s.key, s.parent_key, s.parent_seq FROM line CROSS JOIN session s ON s.key = line.parent WHERE ?4 <= line.shared)
		SELECT key FROM line WHERE parent IS NULL OR ?4 > shared`
	branchSQL = `INSERT INTO session (app, user, id, seq, created, updated, parent_key, parent_seq, head, status)
		VALUES (?1, ?2, ?3, ?7, ?5, ?5, ?6, ?4, ?8, ?9) RETURNING key`
	// The session's status if its log ends at the position; otherwise the last status that its log sets up to there.
	statusSQL = `WITH RECURSIVE line (key, upto, status) AS (
			SELECT ?1, ?2, (SELECT status FROM session WHERE key = ?1 AND seq = ?2 AND id IS NOT NULL)
			UNION ALL
			SELECT s.parent_key, min(line.upto, s.parent_seq),
				(SELECT t.status FROM turning t WHERE t.session = line.key AND t.seq <= line.upto ORDER BY t.seq DESC LIMIT 1)
			FROM line CROSS JOIN session s ON s.key = line.key WHERE line.status IS NULL)
		SELECT status FROM line WHERE status IS NOT NULL`
	occupantSQL = `SELECT key, created IS NOT NULL, coalesce(lease_until, 0), coalesce(lease_host, ''), coalesce(lease_pid, 0), coalesce(lease_started, 0)
		FROM session WHERE app = ? AND user = ? AND id = ?`
	hideSQL = `UPDATE session SET app = NULL, user = NULL, id = NULL, seq = 0, head = NULL, created = NULL, updated = NULL,
		lease_host = NULL, lease_pid = NULL, lease_started = NULL, lease_until = NULL WHERE key = ?`
	sharedSQL   = "SELECT parent_seq FROM session WHERE parent_key = ? ORDER BY parent_seq DESC LIMIT 1"
	trimSQL     = "DELETE FROM log WHERE session = ? AND seq > ?"
	trimBlobSQL = "DELETE FROM blob WHERE session = ? AND seq >= ?"
	removeSQL   = "DELETE FROM session WHERE key = ? RETURNING coalesce(parent_key, 0)" // this also deletes its events
	hiddenSQL   = "SELECT id IS NULL FROM session WHERE key = ?"
)

// Fork implements [session.Store]. It returns after an fsync. It copies nothing: the new session's row refers to the
// session whose own log contains the last shared event. Finding that session takes one step for each fork on the way
// to it.
func (s *Store) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	if err := session.CheckEvents(to, seq, events); err != nil {
		return err
	}
	own, err := rows.Encode(to, events)
	if err != nil {
		return err
	}
	err = s.writes.exclusive(ctx, func(w *writer) error { return w.fork(of, seq, to, own, events, s.now()) })
	return s.file.explain("fork a session in", err)
}

func (w *writer) fork(of session.Key, seq int64, to session.Key, own rows.Batch, events []*event.Event, now time.Time) error {
	head := sql.NullString{Valid: len(events) > 0}
	if head.Valid {
		head.String = session.HeadOf(events[len(events)-1]).ID
	}
	var parent int64
	found, err := w.one(keeperSQL, []any{of.App, of.User, of.ID, seq}, &parent)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("session %s has no position %d to fork at: %w", of, seq, agent.ErrBadInput)
	}
	var old struct {
		key, until int64
		exists     bool
		holder     session.Owner
	}
	found, err = w.one(occupantSQL, []any{to.App, to.User, to.ID}, &old.key, &old.exists, &old.until, &old.holder.Host, &old.holder.PID, &old.holder.Started)
	switch {
	case err != nil:
		return err
	case found && (old.exists || session.Leased(time.Unix(0, old.until), now) && session.Alive(old.holder)):
		return fmt.Errorf("session %s exists already: %w", to, agent.ErrConflict)
	case found: // the session only had a lease; its holder must not write to the fork
		if err := w.collect(old.key); err != nil {
			return err
		}
	}
	var status session.Status
	if _, err := w.one(statusSQL, []any{parent, seq}, &status); err != nil {
		return err
	}
	status = status.After(events...)
	var row int64
	args := []any{to.App, to.User, to.ID, seq, now.UnixNano(), parent, seq + int64(len(events)), head, string(status)}
	if _, err := w.one(branchSQL, args, &row); err != nil {
		return err
	}
	return w.store(row, to, seq, own)
}

// Delete implements [session.Store]. Events that forks share stay in the file, where only the forks refer to them.
func (s *Store) Delete(ctx context.Context, key session.Key) error {
	err := s.writes.exclusive(ctx, func(w *writer) error {
		row, err := w.row(key)
		if err != nil || row.Incarnation == 0 {
			return err
		}
		return w.collect(row.Incarnation)
	})
	return s.file.explain("delete from", err)
}

// collect removes a session's key and everything that only this session uses: the events that no fork shares, and, if
// it has no forks, its row. It does the same for a deleted parent whose last fork it was.
func (w *writer) collect(row int64) error {
	if err := w.exec(hideSQL, row); err != nil {
		return err
	}
	for {
		var shared int64
		hasForks, err := w.one(sharedSQL, []any{row}, &shared)
		if err != nil {
			return err
		}
		if hasForks {
			err := w.exec(trimSQL, row, shared)
			if err == nil {
				err = w.exec(trimBlobSQL, row, shared)
			}
			return err
		}
		var parent int64
		if _, err := w.one(removeSQL, []any{row}, &parent); err != nil || parent == 0 {
			return err
		}
		var hidden bool
		if _, err := w.one(hiddenSQL, []any{parent}, &hidden); err != nil || !hidden {
			return err
		}
		row = parent
	}
}
