package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// A lease's token names the session's row too, so that no two leases of a
// database have the same.
func token(key, n int64) int64              { return key<<32 | n }
func splitToken(token int64) (key, n int64) { return token >> 32, token & (1<<32 - 1) }

// checkKey refuses what PostgreSQL's texts cannot hold.
func checkKey(key session.Key) error {
	for _, part := range []string{key.App, key.User, key.ID} {
		if strings.ContainsRune(part, 0) || !utf8.ValidString(part) {
			return fmt.Errorf("session %q: PostgreSQL keeps no zero bytes and nothing but UTF-8 in a key: %w", key.String(), agent.ErrBadInput)
		}
	}
	return nil
}

const (
	// takeSQL takes a lease that is free, or held by a dead owner ($9), or taken by an
	// earlier try of the same call whose answer was lost. It also takes one that ends
	// later than a new one, because the server's clock was set back or another server
	// replaced it (see session.Leased). Otherwise it returns the holder. A try that the
	// server runs only after the lease was given back takes it for nobody; that lease ends
	// by time.
	takeSQL = `WITH taken AS (
			UPDATE arbor.session SET
				lease_token = CASE WHEN lease_until IS NOT NULL AND lease_nonce = $8 THEN lease_token ELSE lease_token + 1 END,
				lease_nonce = $8, lease_host = $5, lease_pid = $6, lease_started = $7,
				lease_until = coalesce($4, clock_timestamp()) + $10::interval
			WHERE app = $1 AND user_id = $2 AND id = $3
				AND (lease_until IS NULL OR lease_until <= coalesce($4, clock_timestamp()) OR lease_until > coalesce($4, clock_timestamp()) + $10::interval
					OR lease_nonce = $8 OR lease_token = $9)
			RETURNING key, lease_token, seq, parent_seq)
		SELECT true, key, lease_token, seq, parent_seq, '', 0, 0, NULL FROM taken
		UNION ALL
		SELECT false, key, lease_token, seq, parent_seq, lease_host, lease_pid, lease_started, lease_until FROM arbor.session
		WHERE app = $1 AND user_id = $2 AND id = $3 AND NOT EXISTS (SELECT FROM taken)`
	createSQL = `INSERT INTO arbor.session (app, user_id, id, lease_token, lease_nonce, lease_host, lease_pid, lease_started, lease_until)
		VALUES ($1, $2, $3, 1, $8, $5, $6, $7, coalesce($4, clock_timestamp()) + $9::interval)
		ON CONFLICT DO NOTHING RETURNING key`
	renewSQL = `UPDATE arbor.session SET lease_until = coalesce($6, clock_timestamp()) + $7::interval
		WHERE key = $1 AND lease_token = $2 AND lease_until IS NOT NULL AND app = $3 AND user_id = $4 AND id = $5`
	releaseSQL = `UPDATE arbor.session SET lease_until = NULL
		WHERE key = $1 AND lease_token = $2 AND lease_until IS NOT NULL AND app = $3 AND user_id = $4 AND id = $5`
	// Nobody has the token that it leaves, and its time is over by any clock.
	abandonSQL = `UPDATE arbor.session SET lease_until = 'epoch', lease_token = lease_token + 1, lease_nonce = NULL
		WHERE key = $1 AND lease_token = $2 AND lease_until IS NOT NULL AND app = $3 AND user_id = $4 AND id = $5`
)

// Acquire implements [session.Store]. It takes a lease over when [session.Alive]
// says that its owner is dead. Time is the server's: clocks of the machines that
// use it do not matter.
func (s *Store) Acquire(ctx context.Context, key session.Key, owner session.Owner) (session.Lease, error) {
	if err := checkKey(key); err != nil {
		return session.Lease{}, err
	}
	var lease session.Lease
	nonce := rand.Int64()
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		lease, err = s.acquire(ctx, conn, key, owner, nonce)
		return err
	})
	return lease, s.explain("acquire a lease in", err)
}

func (s *Store) acquire(ctx context.Context, conn *pgx.Conn, key session.Key, owner session.Owner, nonce int64) (session.Lease, error) {
	// Others may change the row between the statements. Each statement is correct
	// on its own; who loses a race begins again.
	for dead := int64(-1); ; {
		var row, n, seq int64
		var taken bool
		var host *string
		var shared, pid, started *int64
		var until *time.Time
		err := conn.QueryRow(ctx, takeSQL, key.App, key.User, key.ID, s.time(), text(owner.Host), owner.PID, owner.Started, nonce, dead, session.LeaseTTL).
			Scan(&taken, &row, &n, &seq, &shared, &host, &pid, &started, &until)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			err = conn.QueryRow(ctx, createSQL, key.App, key.User, key.ID, s.time(), text(owner.Host), owner.PID, owner.Started, nonce, session.LeaseTTL).Scan(&row)
			if errors.Is(err, pgx.ErrNoRows) {
				continue
			}
			if err != nil {
				return session.Lease{}, err
			}
			return session.Lease{Token: token(row, 1), Incarnation: row}, nil
		case err != nil:
			return session.Lease{}, err
		case taken:
			lease := session.Lease{Token: token(row, n), Seq: seq, Incarnation: row, Fork: shared != nil}
			if shared != nil {
				lease.Shared = *shared
			}
			return lease, nil
		case host == nil || pid == nil || started == nil || until == nil:
			continue // it is free now
		}
		holder := session.Owner{Host: *host, PID: int(*pid), Started: *started}
		if session.Alive(holder) {
			return session.Lease{}, fmt.Errorf("session %s: process %d on %s holds it, until %s if it does not renew: %w",
				key, holder.PID, holder.Host, until.UTC().Format(time.RFC3339), agent.ErrSessionBusy)
		}
		dead = n
	}
}

// Renew implements [session.Store].
func (s *Store) Renew(ctx context.Context, key session.Key, lease session.Lease) error {
	if err := checkKey(key); err != nil {
		return err
	}
	held, err := s.changeLease(ctx, renewSQL, key, lease, s.time(), session.LeaseTTL)
	if err == nil && !held {
		err = session.LeaseLost(key)
	}
	return s.explain("renew a lease in", err)
}

// Release implements [session.Store]. It also works with a context that has
// ended, since turns that were canceled give their lease back too.
func (s *Store) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	if err := checkKey(key); err != nil {
		return err
	}
	_, err := s.changeLease(context.WithoutCancel(ctx), releaseSQL, key, lease)
	return s.explain("release a lease in", err)
}

// Abandon implements [session.Store].
func (s *Store) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	if err := checkKey(key); err != nil {
		return err
	}
	_, err := s.changeLease(context.WithoutCancel(ctx), abandonSQL, key, lease)
	return s.explain("abandon a lease in", err)
}

func (s *Store) changeLease(ctx context.Context, sql string, key session.Key, lease session.Lease, more ...any) (held bool, err error) {
	row, n := splitToken(lease.Token)
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, sql, append([]any{row, n, key.App, key.User, key.ID}, more...)...)
		held = tag.RowsAffected() == 1
		return err
	})
	return held, err
}

// text makes a string one that PostgreSQL keeps.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
