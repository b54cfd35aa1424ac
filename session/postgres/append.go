package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Append is one statement, and so one round trip, one transaction and one commit.
// Its parts hang on the first one, which locks the session's row and finds nothing
// unless lease and position are right.
const (
	headSQL = `WITH head AS (
		UPDATE arbor.session SET seq = seq + cardinality($7::text[]),
			updated = coalesce($8, statement_timestamp()), created = coalesce(created, $8, statement_timestamp())
		WHERE key = $1 AND lease_token = $2 AND lease_until IS NOT NULL AND seq = $3 AND app = $4 AND user_id = $5 AND id = $6
		RETURNING key, lease_token
	), new_event AS (
		INSERT INTO arbor.log (session, seq, line)
		SELECT head.key, $3 + e.n, e.line FROM head, unnest($7::text[]) WITH ORDINALITY AS e (line, n)
	)`
	// A run begins and ends in one session: a fork takes an open one up in a run of
	// its own. A trigger finds the message of each block, so the blocks that it can hang
	// on have to be inserted first.
	blockSQL = `, b AS (
		SELECT * FROM json_to_recordset($9::json) AS b (id text, parent text, role text, agent text, scope text, turn text,
			first bigint, last bigint, completed timestamptz)
	), began AS (
		INSERT INTO arbor.block AS old (session, id, parent_block_id, role, agent, scope, turn_id, first_seq, last_seq, completed)
		SELECT head.key, b.id, b.parent, b.role, b.agent, b.scope, b.turn, b.first, b.last, b.completed FROM head, b WHERE b.first IS NOT NULL
		ORDER BY b.first
		ON CONFLICT (session, id) DO UPDATE
			SET last_seq = coalesce(excluded.last_seq, old.last_seq), completed = coalesce(excluded.completed, old.completed)
	), ended AS (
		UPDATE arbor.block o SET last_seq = b.last, completed = b.completed FROM head, b
		WHERE b.first IS NULL AND o.session = head.key AND o.id = b.id
	)`
	// In the order of the key, so that no two appends wait for each other. A key
	// that does not exist is not deleted.
	stateSQL = `, new_state AS (
		INSERT INTO arbor.state (app, scope, user_id, name, value)
		SELECT $4, c.scope, c.user_id, c.name, c.value
		FROM head, (
			SELECT scope, CASE scope WHEN 'user' THEN $5 ELSE '' END AS user_id, name, value::json
			FROM unnest($%d::text[], $%d::bytea[], $%d::text[]) AS c (scope, name, value)) c
		WHERE c.value IS NOT NULL OR EXISTS (
			SELECT FROM arbor.state o WHERE o.app = $4 AND o.scope = c.scope AND o.user_id = c.user_id AND o.name = c.name)
		ORDER BY c.scope, c.user_id, c.name
		ON CONFLICT (app, scope, user_id, name) DO UPDATE SET value = excluded.value
	)`
	tailSQL = ` SELECT count(*) FROM head`
	// What an append does that takes the lease, too.
	lendSQL = `UPDATE arbor.session SET lease_token = lease_token + 1, lease_nonce = $%d, lease_host = $%d, lease_pid = $%d, lease_started = $%d,
			lease_until = coalesce($8, clock_timestamp()) + $%d::interval, `
	lentSQL   = `SELECT lease_token FROM arbor.session WHERE key = $1 AND lease_nonce = $2 AND lease_until IS NOT NULL`
	holderSQL = `SELECT seq FROM arbor.session
		WHERE key = $1 AND lease_token = $2 AND lease_until IS NOT NULL AND app = $3 AND user_id = $4 AND id = $5`
	storedSQL = `SELECT line FROM arbor.log WHERE session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq`
)

// appending is an append that is ready to be sent.
type appending struct {
	key    session.Key
	row, n int64    // of the lease
	seq    int64    // the expected position
	lines  []string // the events
	sql    string
	args   []any
}

// Append implements [session.Store]. It returns after the server's commit, which
// waits for its disk. If the connection breaks, Append connects again and finds
// out whether its events are stored, so that they are there exactly once when it
// returns nil. With another error, the context's included, it may be unknown
// whether they are: the next lease's Seq tells.
func (s *Store) Append(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, events ...*event.Event) error {
	return s.append(ctx, key, expectedSeq, lease, false, events)
}

// AppendRelease implements [session.Releaser], in the statement that appends. What was said of
// an append whose answer is lost holds here, too: if its events are stored, the lease is free.
func (s *Store) AppendRelease(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, events ...*event.Event) error {
	if len(events) == 0 {
		return s.Release(ctx, key, lease)
	}
	return s.append(ctx, key, expectedSeq, lease, true, events)
}

func (s *Store) append(ctx context.Context, key session.Key, expectedSeq int64, lease session.Lease, release bool, events []*event.Event) error {
	a := &appending{key: key, seq: expectedSeq}
	a.row, a.n = splitToken(lease.Token)
	err := s.compose(ctx, a, events)
	if err == nil && len(events) == 0 {
		return s.explain("append to", s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error { return a.refused(ctx, conn) }))
	}
	if err == nil {
		if release {
			a.sql = strings.Replace(a.sql, "UPDATE arbor.session SET ", "UPDATE arbor.session SET lease_until = NULL, ", 1)
		}
		err = s.store(ctx, a)
	}
	return s.explain("append to", err)
}

// AcquireAppend implements [session.Acquirer], in the statement that appends. If its answer is lost,
// the lease's nonce tells whether it was done.
func (s *Store) AcquireAppend(ctx context.Context, key session.Key, owner session.Owner, expected session.Lease, events ...*event.Event) (session.Lease, error) {
	a := &appending{key: key, seq: expected.Seq, row: expected.Incarnation}
	if err := s.compose(ctx, a, events); err != nil {
		return session.Lease{}, s.explain("acquire a lease in", err)
	}
	if len(events) == 0 {
		return session.Lease{}, session.Unexpected(key)
	}
	nonce, n := rand.Int64(), len(a.args)
	a.sql = strings.NewReplacer("UPDATE arbor.session SET ", fmt.Sprintf(lendSQL, n+1, n+2, n+3, n+4, n+5),
		"lease_token = $2 AND lease_until IS NOT NULL", "$2::bigint = 0 AND lease_until IS NULL AND parent_seq IS NULL",
		tailSQL, " SELECT lease_token FROM head").Replace(a.sql)
	a.args = append(a.args, nonce, text(owner.Host), owner.PID, owner.Started, session.LeaseTTL)
	unknown := false
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, a.sql, a.args...).Scan(&a.n)
		if errors.Is(err, pgx.ErrNoRows) && unknown {
			err = conn.QueryRow(ctx, lentSQL, a.row, nonce).Scan(&a.n)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return session.Unexpected(key)
		}
		unknown = unknown || err != nil
		return err
	})
	if err != nil {
		return session.Lease{}, s.explain("acquire a lease in", err)
	}
	return session.Lease{Token: token(a.row, a.n), Seq: a.seq, Incarnation: a.row}, nil
}

// compose makes an append ready to be sent, unless there is nothing to store.
func (s *Store) compose(ctx context.Context, a *appending, events []*event.Event) error {
	if err := cmp.Or(ctx.Err(), session.CheckEvents(a.key, a.seq, events), checkKey(a.key)); err != nil || len(events) == 0 {
		return err
	}
	return s.encode(a, events, func(id, run string) (found string, err error) {
		err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
			found, err = runOf(ctx, conn, a.row, a.seq, id, run)
			return err
		})
		return found, err
	})
}

// lineOf returns an event's line as it is stored.
func lineOf(e *event.Event) (string, error) {
	line, err := e.Line()
	return strings.ToValidUTF8(line, "\uFFFD"), err
}

// encode makes events ready to be sent.
func (s *Store) encode(a *appending, events []*event.Event, runOf lookup) error {
	a.lines = make([]string, len(events))
	changes := make(map[stateName]*string)
	for i, e := range events {
		line, err := lineOf(e)
		if err != nil {
			return fmt.Errorf("session %s: %w", a.key, err)
		}
		a.lines[i] = line
		if st, ok := e.Data.(*event.State); ok {
			if err := addChanges(changes, st.Delta); err != nil {
				return fmt.Errorf("session %s: event %s: %w", a.key, e.ID, err)
			}
		}
	}
	blocks, err := blocksOf(events, runOf)
	if err != nil {
		return err
	}
	a.sql = headSQL
	a.args = []any{a.row, a.n, a.seq, a.key.App, a.key.User, a.key.ID, a.lines, s.time()}
	if len(blocks) > 0 {
		a.sql += blockSQL
		a.args = append(a.args, string(event.EncodeJSON(blocks)))
	}
	if len(changes) > 0 {
		n := len(a.args)
		a.sql += fmt.Sprintf(stateSQL, n+1, n+2, n+3)
		a.args = append(a.args, changeArgs(changes)...)
	}
	a.sql += tailSQL
	return nil
}

// store sends the append until it is known whether it was stored. A try whose
// answer was lost may have been stored, or still be under way on the server, and
// then holds the lock of the session's row or waits for it. Whichever comes second
// finds the position taken and stores nothing. If the events at that position are
// the ones to store, the append has succeeded.
func (s *Store) store(ctx context.Context, a *appending) error {
	unknown := false
	return s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var stored int
		err := conn.QueryRow(ctx, a.sql, a.args...).Scan(&stored)
		switch {
		case err != nil:
			// What the error means is judged where the connection is; the next try is
			// careful in any case.
			unknown = true
			return err
		case stored == 1:
			return nil
		case unknown:
			if there, err := a.isStored(ctx, conn); there || err != nil {
				return err
			}
		}
		return a.refused(ctx, conn)
	})
}

// refused says why an append was refused. It returns nil if nothing is in its way.
func (a *appending) refused(ctx context.Context, conn *pgx.Conn) error {
	var seq int64
	err := conn.QueryRow(ctx, holderSQL, a.row, a.n, a.key.App, a.key.User, a.key.ID).Scan(&seq)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return session.LeaseLost(a.key)
	case err != nil:
		return err
	case seq != a.seq:
		return fmt.Errorf("session %s: the log is at %d, not at %d: %w", a.key, seq, a.seq, agent.ErrConflict)
	case len(a.lines) > 0: // it was in the way a moment ago
		return fmt.Errorf("session %s: another append was under way: %w", a.key, agent.ErrConflict)
	}
	return nil
}

// isStored reports whether the session's log contains the events, byte for byte.
func (a *appending) isStored(ctx context.Context, conn *pgx.Conn) (bool, error) {
	rows, err := conn.Query(ctx, storedSQL, a.row, a.seq, a.seq+int64(len(a.lines)))
	if err != nil {
		return false, err
	}
	stored, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return err == nil && slices.Equal(stored, a.lines), err
}

// stateName is a name of the shared state.
type stateName struct{ scope, name string }

// addChanges notes what a delta does to the shared state; nil deletes. The last
// change of a name is the one that counts.
func addChanges(changes map[stateName]*string, delta map[string]any) error {
	for name, value := range delta {
		scope, _, _ := strings.Cut(name, ":")
		if scope == name || scope != "user" && scope != "app" {
			continue
		}
		var encoded *string
		if value != nil {
			b, err := json.Marshal(value)
			if err != nil {
				return fmt.Errorf("state %q: %w", name, err)
			}
			v := strings.ToValidUTF8(string(b), "\uFFFD")
			encoded = &v
		}
		changes[stateName{scope, name}] = encoded
	}
	return nil
}

func changeArgs(changes map[stateName]*string) []any {
	var scopes []string
	var names [][]byte
	var values []*string
	for n, value := range changes {
		scopes, names, values = append(scopes, n.scope), append(names, []byte(n.name)), append(values, value)
	}
	return []any{scopes, names, values}
}
