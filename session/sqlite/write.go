package sqlite

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/rows"
)

const (
	rowSQL = `SELECT key, seq, coalesce(head, ''), coalesce(parent_seq, -1),
			status, stop, token, lease_nonce, lease_until IS NOT NULL, coalesce(lease_until, 0), coalesce(lease_host, ''), coalesce(lease_pid, 0), coalesce(lease_started, 0)
		FROM session WHERE app = ? AND user = ? AND id = ?`
	createSQL    = "INSERT INTO session (app, user, id) VALUES (?, ?, ?) RETURNING key"
	setLeaseSQL  = "UPDATE session SET token = ?, lease_nonce = ?, lease_host = ?, lease_pid = ?, lease_started = ?, lease_until = ?"
	leaseSQL     = setLeaseSQL + " WHERE key = ?"
	stopSQL      = "UPDATE session SET stop = ? WHERE key = ?"
	advanceSQL   = setLeaseSQL + ", seq = ?9, head = ?10, status = ?11, updated = ?8, created = coalesce(created, ?8) WHERE key = ?7"
	insertSQL    = "INSERT INTO log (session, seq, line) VALUES (?, ?, ?)"
	setStateSQL  = "INSERT INTO state (app, scope, user, name, value) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
	dropStateSQL = "DELETE FROM state WHERE app = ? AND scope = ? AND user = ? AND name = ?"
)

// row reads a session's row. Its Incarnation is 0 if the session does not exist.
func (w *writer) row(key session.Key) (row session.Row, err error) {
	var until, shared int64
	found, err := w.one(rowSQL, []any{key.App, key.User, key.ID}, &row.Incarnation, &row.Head.Seq, &row.Head.ID, &shared,
		&row.Status, &row.Stop, &row.Token, &row.Nonce, &row.Held, &until, &row.Holder.Host, &row.Holder.PID, &row.Holder.Started)
	if !found || err != nil {
		return session.Row{}, err
	}
	row.Until = time.Unix(0, until)
	row.Fork, row.Shared = shared >= 0, max(shared, 0)
	return row, nil
}

// Write implements [session.Store]. It is one transaction, or a part of a transaction with other writes. With events or
// a request to stop, it returns after the fsync. If the context ends while the write waits for its turn, the write is
// not made; later the context has no effect.
func (s *Store) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if err := w.Check(key); err != nil {
		return session.Lease{}, err
	}
	batch, err := rows.Encode(key, w.Events) // before the write's turn, so that other writes do not wait for it
	if err != nil {
		return session.Lease{}, err
	}
	var lease session.Lease
	err = s.writes.batched(ctx, len(w.Events) > 0 || w.Stop > 0, func(on *writer) (err error) {
		lease, err = on.change(key, &w, batch, s.now())
		return err
	})
	return lease, s.file.explain("write to", err)
}

// change makes a write in the open transaction. If it returns an error for which isRefusal is true, it has changed
// nothing. After any other error the transaction must be rolled back.
func (w *writer) change(key session.Key, write *session.Write, batch rows.Batch, now time.Time) (session.Lease, error) {
	row, err := w.row(key)
	if err == nil {
		err = row.Change(key, write, rand.Int64(), now)
	}
	if err == nil && write.Stop > 0 {
		return row.Lease, w.exec(stopSQL, row.Stop, row.Incarnation)
	}
	if err == nil && row.Incarnation == 0 {
		_, err = w.one(createSQL, []any{key.App, key.User, key.ID}, &row.Incarnation)
	}
	if err != nil {
		return session.Lease{}, err
	}
	args := []any{row.Token, row.Nonce, row.Holder.Host, row.Holder.PID, row.Holder.Started, nil, row.Incarnation}
	if row.Held {
		args[5] = row.Until.UnixNano()
	}
	if len(write.Events) == 0 {
		err = w.exec(leaseSQL, args...)
	} else if err = w.exec(advanceSQL, append(args, now.UnixNano(), row.Head.Seq, row.Head.ID, string(row.Status))...); err == nil {
		err = w.store(row.Incarnation, key, write.Head.Seq, batch)
	}
	if p := write.Snapshot; err == nil && p.Data != "" {
		err = w.exec(putSQL, row.Incarnation, p.Seq, []byte(p.Data))
	}
	return row.Lease, err
}

// store inserts events after a position.
func (w *writer) store(row int64, key session.Key, seq int64, b rows.Batch) error {
	for i, text := range b.Lines {
		if err := w.exec(insertSQL, row, seq+int64(i)+1, text); err != nil {
			return err
		}
	}
	for n, value := range b.State {
		var err error
		if value == nil {
			err = w.exec(dropStateSQL, key.App, n.Scope, n.User(key), n.Name)
		} else {
			err = w.exec(setStateSQL, key.App, n.Scope, n.User(key), n.Name, *value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
