package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/rows"
)

// checkKey refuses a key that PostgreSQL's text type cannot store.
func checkKey(key session.Key) error {
	for _, part := range []string{key.App, key.User, key.ID} {
		if strings.ContainsRune(part, 0) || !utf8.ValidString(part) {
			return fmt.Errorf("session %q: PostgreSQL cannot store a key with zero bytes or invalid UTF-8: %w", key.String(), agent.ErrBadInput)
		}
	}
	return nil
}

// A write is one statement, and so one round trip, one transaction and one commit. The first part locks the session's
// row. If lease or head are wrong, it finds no row, and the other parts do nothing.
const (
	eventSQL = `, new_event AS (
		INSERT INTO arbor.log (session, seq, line)
		SELECT head.key, %s + e.n, e.line FROM head, unnest(%s::text[]) WITH ORDINALITY AS e (line, n)
	)`
	// A run starts and ends in one session, because a fork resumes an open run in a run of
	// its own. A trigger finds the message that each block belongs to, so parents must be
	// inserted first.
	blockSQL = `, b AS (
		SELECT * FROM json_to_recordset(%s::json) AS b (id text, parent text, role text, agent text, scope text, turn text,
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
	// The rows are changed in the order of their keys, so that two writes do not deadlock. Deleting a key
	// that does not exist inserts no row.
	stateSQL = `, new_state AS (
		INSERT INTO arbor.state (app, scope, user_id, name, value)
		SELECT %[1]s, c.scope, c.user_id, c.name, c.value
		FROM head, (
			SELECT scope, CASE scope WHEN 'user' THEN %[2]s ELSE '' END AS user_id, name, value::json
			FROM unnest(%[3]s::text[], %[4]s::bytea[], %[5]s::text[]) AS c (scope, name, value)) c
		WHERE c.value IS NOT NULL OR EXISTS (
			SELECT FROM arbor.state o WHERE o.app = %[1]s AND o.scope = c.scope AND o.user_id = c.user_id AND o.name = c.name)
		ORDER BY c.scope, c.user_id, c.name
		ON CONFLICT (app, scope, user_id, name) DO UPDATE SET value = excluded.value
	)`
	rowSQL = `SELECT key, lease_token, stop, seq, coalesce(head, ''), coalesce(parent_seq, -1),
			coalesce(lease_random, 0), lease_until, coalesce(lease_host, ''), coalesce(lease_pid, 0), coalesce(lease_started, 0), coalesce($4, clock_timestamp())
		FROM arbor.session WHERE app = $1 AND user_id = $2 AND id = $3`
	// This insert does not wait for the disk, because the write that follows waits.
	createSQL = `INSERT INTO arbor.session (app, user_id, id) SELECT $1, $2, $3
		FROM (SELECT set_config('synchronous_commit', 'off', true)) AS quick ON CONFLICT DO NOTHING`
	stopSQL = `UPDATE arbor.session SET stop = greatest(stop, %[2]s) WHERE %[1]s AND seq >= %[2]s
		RETURNING key, lease_token, stop, seq, coalesce(head, ''), coalesce(parent_seq, -1), ''`
	storedSQL = `SELECT line FROM arbor.log WHERE session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq`
)

// change is a write in the form in which it is sent.
type change struct {
	key    session.Key
	write  *session.Write
	nonce  int64 // the nonce of the lease, if the write acquires it
	dead   int64 // the token of a lease whose holder has died, or -1
	blocks []*block
	rows.Batch
}

// Write implements [session.Store]. It returns after the server's commit; with events, the commit waits for the
// server's disk. The store uses the server's time, so the clocks of the clients do not matter.
//
// If the connection breaks, Write connects again and finds out whether the change was made. When Write returns nil,
// the change was made exactly once. With another error, including that of the context, it may be unknown whether the
// change was made: the Head of the next lease shows it.
func (s *Store) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	c := &change{key: key, write: &w, nonce: rand.Int64(), dead: -1}
	if err := cmp.Or(ctx.Err(), w.Check(key), checkKey(key)); err != nil {
		return session.Lease{}, err
	}
	err := c.encode(func(id, run string) (found string, err error) {
		err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			row, _, err := s.row(ctx, conn, key)
			if err == nil {
				found, err = runOf(ctx, conn, row.Incarnation, w.Head.Seq, id, run)
			}
			return err
		})
		return found, err
	})
	if err != nil {
		return session.Lease{}, s.explain("write to", err)
	}
	var lease session.Lease
	unknown := false
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		lease, err = s.change(ctx, conn, c, unknown)
		// After any error the next attempt first checks whether this one made the change.
		unknown = unknown || err != nil
		return err
	})
	return lease, s.explain("write to", err)
}

// encode encodes the events.
func (c *change) encode(runOf lookup) (err error) {
	if c.Batch, err = rows.Encode(c.key, c.write.Events); err != nil {
		return err
	}
	for i, line := range c.Lines {
		c.Lines[i] = strings.ToValidUTF8(line, "\uFFFD")
	}
	c.blocks, err = blocksOf(c.write.Events, runOf)
	return err
}

// change makes a write, or returns why it is refused. An earlier attempt whose answer was lost may have made the
// write, or may still be running on the server: it then has the lock of the session's row or waits for it. The
// attempt that comes second finds another lease or head.
func (s *Store) change(ctx context.Context, conn *pgx.Conn, c *change, unknown bool) (session.Lease, error) {
	for {
		sql, args := c.statement(s.time())
		lease := session.Lease{Nonce: c.write.Lease.Nonce}
		if c.write.Acquires() {
			lease.Nonce = c.nonce
		}
		var shared int64
		var head []byte
		err := conn.QueryRow(ctx, sql, args...).Scan(&lease.Incarnation, &lease.Token, &lease.Stop, &lease.Head.Seq, &head, &shared, nil)
		if err == nil {
			lease.Head.ID = string(head)
			lease.Fork, lease.Shared = shared >= 0, max(shared, 0)
			return lease, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return session.Lease{}, err
		}
		row, now, err := s.row(ctx, conn, c.key)
		if err != nil {
			return session.Lease{}, err
		}
		if unknown {
			if done, err := c.isDone(ctx, conn, &row); done || err != nil {
				return row.Lease, err
			}
		}
		before := row
		switch err := row.Change(c.key, c.write, c.nonce, now); {
		case err != nil:
			return session.Lease{}, err
		case row.Incarnation == 0:
			if _, err := conn.Exec(ctx, createSQL, c.key.App, c.key.User, c.key.ID); err != nil {
				return session.Lease{}, err
			}
		case before.Held:
			c.dead = before.Token
		}
	}
}

// statement returns the SQL of the write and its arguments.
func (c *change) statement(now *time.Time) (sql string, args []any) {
	w := c.write
	q := newQuery("")
	arg := q.Arg
	app, user := arg(c.key.App), arg(c.key.User)
	where := "app = " + app + " AND user_id = " + user + " AND id = " + arg(c.key.ID)
	if w.Stop > 0 {
		return fmt.Sprintf(stopSQL, where, arg(w.Stop)), q.Args
	}
	given, until := "", ""
	if len(w.Events) > 0 || w.Acquires() || !w.Ends() {
		given = arg(now) + "::timestamptz"
	}
	clock := "coalesce(" + given + ", clock_timestamp())"
	if w.Acquires() || !w.Ends() {
		until = clock + " + " + arg(session.LeaseTTL) + "::interval"
	}
	var set []string
	if w.Acquires() {
		set = append(set, "lease_token = greatest(lease_token + 1, (extract(epoch FROM "+clock+") * 1000000)::bigint * 1000)", "lease_random = "+arg(c.nonce), "lease_host = "+arg(text(w.Acquire.Host)),
			"lease_pid = "+arg(w.Acquire.PID), "lease_started = "+arg(w.Acquire.Started))
		// The write also takes a lease that ends later than a new one, because the server's clock was set back or another server
		// replaced it (see session.Leased).
		where += " AND (lease_until IS NULL OR lease_until <= " + clock + " OR lease_until > " + until + " OR lease_token = " + arg(c.dead) + ")"
	} else {
		where += " AND lease_until IS NOT NULL AND lease_token = " + arg(w.Lease.Token) + " AND lease_random = " + arg(w.Lease.Nonce)
	}
	switch {
	case w.Release:
		set = append(set, "lease_until = NULL")
	case w.Abandon: // no process has this token, and the lease has ended by any clock
		set = append(set, "lease_until = 'epoch'", "lease_token = lease_token + 1", "lease_random = NULL")
	default:
		set = append(set, "lease_until = "+until)
	}
	seq := ""
	if w.Stores() {
		seq = arg(w.Head.Seq)
		where += " AND seq = " + seq + " AND coalesce(head, '') IN (" + arg([]byte(w.Head.ID))
		if !w.Acquires() {
			where += ", ''"
		}
		where += ")"
	}
	var parts strings.Builder
	wait := "''"
	if len(w.Events) > 0 {
		lines := arg(c.Lines)
		set = append(set, "seq = seq + cardinality("+lines+"::text[])", "head = "+arg([]byte(w.End().ID)),
			"updated = coalesce("+given+", statement_timestamp())", "created = coalesce(created, "+given+", statement_timestamp())")
		if status := session.Status("").After(w.Events...); status != "" {
			set = append(set, "status = "+arg(string(status)))
		}
		fmt.Fprintf(&parts, eventSQL, seq, lines)
	} else if !w.Acquires() { // a new lease must survive a crash of the server, or the holder's next write is refused
		wait = "set_config('synchronous_commit', 'off', true)"
	}
	if len(c.blocks) > 0 {
		fmt.Fprintf(&parts, blockSQL, arg(string(event.EncodeJSON(c.blocks))))
	}
	if len(c.State) > 0 {
		scopes, names, values := stateArgs(c.State)
		fmt.Fprintf(&parts, stateSQL, app, user, arg(scopes), arg(names), arg(values))
	}
	if p := w.Snapshot; p.Data != "" {
		fmt.Fprintf(&parts, putSnapshotSQL, arg(p.Seq), arg([]byte(p.Data)))
	}
	return "WITH head AS (UPDATE arbor.session SET " + strings.Join(set, ", ") + " WHERE " + where +
		" RETURNING key, lease_token, stop, seq, head, parent_seq)" + parts.String() +
		" SELECT head.key, head.lease_token, head.stop, head.seq, coalesce(head.head, ''), coalesce(head.parent_seq, -1), " +
		wait + " FROM head", q.Args
}

// row returns the session's row and the server's time.
func (s *Store) row(ctx context.Context, conn *pgx.Conn, key session.Key) (row session.Row, now time.Time, err error) {
	var shared int64
	var head []byte
	var until *time.Time
	err = conn.QueryRow(ctx, rowSQL, key.App, key.User, key.ID, s.time()).Scan(&row.Incarnation, &row.Token, &row.Stop, &row.Head.Seq, &head, &shared, &row.Nonce,
		&until, &row.Holder.Host, &row.Holder.PID, &row.Holder.Started, &now)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return session.Row{}, now, nil
	case err != nil:
		return session.Row{}, now, err
	}
	row.Head.ID = string(head)
	row.Fork, row.Shared = shared >= 0, max(shared, 0)
	if row.Held = until != nil; row.Held {
		row.Until = *until
	}
	return row, now, nil
}

// isDone reports whether an earlier attempt has made the write. A write that stores nothing and keeps the lease is
// simply repeated.
func (c *change) isDone(ctx context.Context, conn *pgx.Conn, row *session.Row) (bool, error) {
	w := c.write
	if w.Acquires() {
		return row.Nonce == c.nonce, nil
	}
	if len(w.Events) == 0 {
		return w.Ends() && (!row.Held || row.Nonce != w.Lease.Nonce), nil
	}
	result, _ := conn.Query(ctx, storedSQL, row.Incarnation, w.Head.Seq, w.End().Seq)
	stored, err := pgx.CollectRows(result, pgx.RowTo[string])
	return err == nil && slices.Equal(stored, c.Lines), err
}

func stateArgs(changes map[rows.Name]*string) (scopes []string, names [][]byte, values []*string) {
	for n, value := range changes {
		if value != nil {
			v := strings.ToValidUTF8(*value, "\uFFFD")
			value = &v
		}
		scopes, names, values = append(scopes, n.Scope), append(names, []byte(n.Name)), append(values, value)
	}
	return scopes, names, values
}

// text replaces the characters that PostgreSQL cannot store.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
