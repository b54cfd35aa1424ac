package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// leaseWriter is the statements for leases on a connection that writes.
type leaseWriter struct {
	take, holder, replace, create *sql.Stmt
	renew, release, abandon       *sql.Stmt
}

func newLeaseWriter(p *preparer) *leaseWriter {
	const take = "UPDATE session SET lease_token = lease_token + 1, lease_host = ?, lease_pid = ?, lease_started = ?, lease_until = ? "
	return &leaseWriter{
		take: p.prepare(take + `WHERE app = ? AND user = ? AND id = ? AND (lease_until IS NULL OR lease_until <= ?)
			RETURNING key, lease_token, seq, coalesce(parent_seq, -1)`),
		holder: p.prepare(`SELECT key, lease_token, lease_host, lease_pid, lease_started, lease_until FROM session
			WHERE app = ? AND user = ? AND id = ? AND lease_until IS NOT NULL`),
		replace: p.prepare(take + "WHERE key = ? AND lease_token = ? AND lease_until = ? RETURNING key, lease_token, seq, coalesce(parent_seq, -1)"),
		create: p.prepare(`INSERT INTO session (app, user, id, lease_token, lease_host, lease_pid, lease_started, lease_until)
			VALUES (?, ?, ?, 1, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING key, lease_token, seq, coalesce(parent_seq, -1)`),
		renew: p.prepare(`UPDATE session SET lease_until = ?
			WHERE key = ? AND lease_token = ? AND lease_until IS NOT NULL AND app = ? AND user = ? AND id = ?`),
		release: p.prepare(`UPDATE session SET lease_until = NULL
			WHERE key = ? AND lease_token = ? AND lease_until IS NOT NULL AND app = ? AND user = ? AND id = ?`),
		// Nobody has the token that it leaves, and its time is over by any clock.
		abandon: p.prepare(`UPDATE session SET lease_until = 0, lease_token = lease_token + 1
			WHERE key = ? AND lease_token = ? AND lease_until IS NOT NULL AND app = ? AND user = ? AND id = ?`),
	}
}

// Acquire implements [session.Store]. It takes a lease over when [session.Alive]
// says that its owner is dead, and when [session.Leased] says that the clock was set
// back since.
func (s *Store) Acquire(ctx context.Context, key session.Key, owner session.Owner) (session.Lease, error) {
	var lease session.Lease
	err := s.group(ctx, false, func(w *leaseWriter) (err error) {
		lease, err = s.acquire(w, key, owner)
		return err
	})
	if err != nil {
		return session.Lease{}, s.explain("acquire a lease in", err)
	}
	return lease, nil
}

func (s *Store) acquire(w *leaseWriter, key session.Key, owner session.Owner) (session.Lease, error) {
	ctx := context.Background()
	now := s.now()
	expires := now.Add(session.LeaseTTL).UnixNano()
	// Outside of a transaction other processes may change the row between the statements.
	// Each statement is correct on its own; who loses a race begins again.
	for {
		lease, ok, err := takeLease(w.take, owner.Host, owner.PID, owner.Started, expires, key.App, key.User, key.ID, now.UnixNano())
		if ok || err != nil {
			return lease, err
		}
		var row, n, until int64
		var holder session.Owner
		held, err := queryOne(ctx, w.holder, []any{key.App, key.User, key.ID}, &row, &n, &holder.Host, &holder.PID, &holder.Started, &until)
		switch {
		case err != nil:
			return session.Lease{}, err
		case !held:
			lease, ok, err = takeLease(w.create, key.App, key.User, key.ID, owner.Host, owner.PID, owner.Started, expires)
		case session.Leased(time.Unix(0, until), s.now()) && session.Alive(holder):
			return session.Lease{}, fmt.Errorf("session %s: process %d on %s holds it, until %s if it does not renew: %w",
				key, holder.PID, holder.Host, time.Unix(0, until).UTC().Format(time.RFC3339), agent.ErrSessionBusy)
		default:
			lease, ok, err = takeLease(w.replace, owner.Host, owner.PID, owner.Started, expires, row, n, until) // unless it was renewed meanwhile
		}
		if ok || err != nil {
			return lease, err
		}
	}
}

func takeLease(stmt *sql.Stmt, args ...any) (lease session.Lease, ok bool, err error) {
	var row, n, shared int64
	ok, err = queryOne(context.Background(), stmt, args, &row, &n, &lease.Seq, &shared)
	if !ok || err != nil {
		return session.Lease{}, false, err
	}
	lease.Token, lease.Incarnation = token(row, n), row
	lease.Fork, lease.Shared = shared >= 0, max(shared, 0)
	return lease, true, nil
}

// AcquireAppend implements [session.Acquirer]: the lease begins with the change of the
// session's row that every append makes, and lasts as that does.
func (s *Store) AcquireAppend(ctx context.Context, key session.Key, owner session.Owner, expected session.Lease, events ...*event.Event) (session.Lease, error) {
	lease := session.Lease{Seq: expected.Seq, Incarnation: expected.Incarnation}
	if len(events) == 0 {
		return session.Lease{}, session.Unexpected(key)
	}
	a, err := encode(key, expected.Seq, events)
	if err != nil {
		return session.Lease{}, err
	}
	err = s.group(ctx, true, func(*leaseWriter) error {
		now, row, n := s.now(), expected.Incarnation, int64(0)
		taken, err := queryOne(context.Background(), s.log.begins, []any{a.seq + int64(len(a.lines)), now.UnixNano(), now.UnixNano(),
			owner.Host, owner.PID, owner.Started, now.Add(session.LeaseTTL).UnixNano(), row, a.seq, key.App, key.User, key.ID}, &n)
		switch {
		case err != nil:
			return err
		case !taken:
			return session.Unexpected(key)
		}
		lease.Token = token(row, n)
		return s.insert(row, a)
	})
	if err != nil {
		return session.Lease{}, s.explain("acquire a lease in", err)
	}
	return lease, nil
}

// Renew implements [session.Store].
func (s *Store) Renew(ctx context.Context, key session.Key, lease session.Lease) error {
	err := s.group(ctx, false, func(w *leaseWriter) error {
		held, err := s.changeLease(w.renew, key, lease, s.now().Add(session.LeaseTTL).UnixNano())
		if err == nil && !held {
			return session.LeaseLost(key)
		}
		return err
	})
	return s.explain("renew a lease in", err)
}

// Release implements [session.Store]. It also works with a context that has
// ended, since turns that were canceled give their lease back too.
func (s *Store) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	err := s.group(context.WithoutCancel(ctx), false, func(w *leaseWriter) error {
		_, err := s.changeLease(w.release, key, lease)
		return err
	})
	return s.explain("release a lease in", err)
}

// Abandon implements [session.Store].
func (s *Store) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	err := s.group(context.WithoutCancel(ctx), false, func(w *leaseWriter) error {
		_, err := s.changeLease(w.abandon, key, lease)
		return err
	})
	return s.explain("abandon a lease in", err)
}

func (s *Store) changeLease(stmt *sql.Stmt, key session.Key, lease session.Lease, args ...any) (held bool, err error) {
	row, n := splitToken(lease.Token)
	result, err := stmt.ExecContext(context.Background(), append(args, row, n, key.App, key.User, key.ID)...)
	if err != nil {
		return false, err
	}
	changed, err := result.RowsAffected()
	return changed == 1, err
}
