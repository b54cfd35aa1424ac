package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// logWriter is the connection for changes that must last.
type logWriter struct {
	writer
	advance, begins, insert, holder *sql.Stmt
	setState, dropState             *sql.Stmt
	putBlob                         *sql.Stmt
	*forkWriter
}

func newLogWriter(p *preparer) *logWriter {
	return &logWriter{
		writer: newWriter(p),
		advance: p.prepare(`UPDATE session SET seq = ?, updated = ?, created = coalesce(created, ?), lease_until = CASE WHEN ? THEN NULL ELSE lease_until END
			WHERE key = ? AND lease_token = ? AND lease_until IS NOT NULL AND seq = ? AND app = ? AND user = ? AND id = ?`),
		begins: p.prepare(`UPDATE session SET seq = ?, updated = ?, created = coalesce(created, ?),
				lease_token = lease_token + 1, lease_host = ?, lease_pid = ?, lease_started = ?, lease_until = ?
			WHERE key = ? AND lease_until IS NULL AND seq = ? AND parent_key IS NULL AND app = ? AND user = ? AND id = ? RETURNING lease_token`),
		insert: p.prepare("INSERT INTO log (session, seq, line) VALUES (?, ?, ?)"),
		holder: p.prepare(`SELECT seq FROM session
			WHERE key = ? AND lease_token = ? AND lease_until IS NOT NULL AND app = ? AND user = ? AND id = ?`),
		setState: p.prepare(`INSERT INTO state (app, scope, user, name, value) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET value = excluded.value`),
		dropState: p.prepare("DELETE FROM state WHERE app = ? AND scope = ? AND user = ? AND name = ?"),
		putBlob: p.prepare(`INSERT INTO blob (session, digest, seq, data) SELECT key, ?, seq, ? FROM session
			WHERE key = ? AND lease_token = ? AND lease_until IS NOT NULL AND app = ? AND user = ? AND id = ? ON CONFLICT DO NOTHING`),
		forkWriter: newForkWriter(p),
	}
}

// A lease's token names the session's row too, so that no two leases of a file
// have the same.
func token(key, n int64) int64              { return key<<32 | n }
func splitToken(token int64) (key, n int64) { return token >> 32, token & (1<<32 - 1) }

// Append implements [session.Store]. Its events are one transaction, or a part of
// one that stores what others append at the same time; either way it returns
// after the fsync. A context that ends while it waits for its turn ends it; one
// that ends later does not.
func (s *Store) Append(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, events ...*event.Event) error {
	return s.appendAll(ctx, key, expectedSeq, lease, false, events)
}

// AppendRelease implements [session.Releaser]: the lease ends with the change of the
// session's row that every append makes, which costs nothing.
func (s *Store) AppendRelease(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, events ...*event.Event) error {
	if len(events) == 0 {
		return s.Release(ctx, key, lease)
	}
	return s.appendAll(ctx, key, expectedSeq, lease, true, events)
}

func (s *Store) appendAll(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, release bool, events []*event.Event) error {
	a, err := encode(key, expectedSeq, events)
	if err != nil {
		return err
	}
	a.lease, a.release = lease, release
	return s.explain("append to", s.group(ctx, true, func(*leaseWriter) error { return s.append(a) }))
}

// appending is events that are ready to be stored.
type appending struct {
	key     session.Key
	seq     int64 // the expected position
	lease   session.Lease
	release bool     // the lease is given back
	lines   []string // the events
	changes []stateChange
}

// encode makes events ready to be stored, before the turn to write, which others wait
// for.
func encode(key session.Key, seq int64, events []*event.Event) (*appending, error) {
	if err := session.CheckEvents(key, seq, events); err != nil {
		return nil, err
	}
	a := &appending{key: key, seq: seq, lines: make([]string, len(events))}
	for i, e := range events {
		var err error
		if a.lines[i], err = e.Line(); err != nil {
			return nil, fmt.Errorf("session %s: %w", key, err)
		}
		if st, ok := e.Data.(*event.State); ok {
			if a.changes, err = appendChanges(a.changes, key, st.Delta); err != nil {
				return nil, fmt.Errorf("session %s: event %s: %w", key, e.ID, err)
			}
		}
	}
	return a, nil
}

// append makes the changes of one append in the transaction that is open. If it
// returns a conflict it has changed nothing; after another error the transaction
// must be rolled back.
func (s *Store) append(a *appending) error {
	ctx, w := context.Background(), s.log
	row, n := splitToken(a.lease.Token)
	if len(a.lines) > 0 {
		now := s.now().UnixNano()
		result, err := w.advance.ExecContext(ctx, a.seq+int64(len(a.lines)), now, now, a.release, row, n, a.seq, a.key.App, a.key.User, a.key.ID)
		if err != nil {
			return err
		}
		if changed, err := result.RowsAffected(); err != nil {
			return err
		} else if changed == 1 {
			return s.insert(row, a)
		}
	}
	// Nothing to store, or nothing that may be: say which.
	var seq int64
	held, err := queryOne(ctx, w.holder, []any{row, n, a.key.App, a.key.User, a.key.ID}, &seq)
	switch {
	case err != nil:
		return err
	case !held:
		return session.LeaseLost(a.key)
	case seq != a.seq:
		return fmt.Errorf("session %s: the log is at %d, not at %d: %w", a.key, seq, a.seq, agent.ErrConflict)
	}
	return nil
}

func (s *Store) insert(row int64, a *appending) error {
	ctx, w := context.Background(), s.log
	for i, text := range a.lines {
		if _, err := w.insert.ExecContext(ctx, row, a.seq+int64(i)+1, text); err != nil {
			return err
		}
	}
	for _, c := range a.changes {
		var err error
		if c.value == nil {
			_, err = w.dropState.ExecContext(ctx, c.app, c.scope, c.user, c.name)
		} else {
			_, err = w.setState.ExecContext(ctx, c.app, c.scope, c.user, c.name, string(c.value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stateChange is a change of one name in the shared state; a nil value deletes.
type stateChange struct {
	app, scope, user, name string
	value                  []byte
}

func appendChanges(changes []stateChange, key session.Key, delta map[string]any) ([]stateChange, error) {
	for name, value := range delta {
		c := stateChange{app: key.App, scope: "app", name: name}
		switch {
		case strings.HasPrefix(name, "user:"):
			c.scope, c.user = "user", key.User
		case !strings.HasPrefix(name, "app:"):
			continue
		}
		if value != nil {
			var err error
			if c.value, err = json.Marshal(value); err != nil {
				return nil, fmt.Errorf("state %q: %w", name, err)
			}
		}
		changes = append(changes, c)
	}
	return changes, nil
}
