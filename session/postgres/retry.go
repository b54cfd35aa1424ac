package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// outage is a failure that may be temporary. unknown reports that the change may have been made nevertheless: the
// connection broke before the server's answer arrived.
type outage struct {
	error
	unknown bool
}

func (o *outage) Unwrap() error { return o.error }

// isUnknown reports whether the failed change may have been made.
func isUnknown(err error) bool {
	var o *outage
	return errors.As(err, &o) && o.unknown
}

// errClosed is the error of all calls after Close.
var errClosed = errors.New("the store is closed")

// The pauses between attempts. The first is short, because the next connection often works. The last is long enough
// not to disturb a server that is starting.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// retry runs op on a connection of the pool, and again while op fails for reasons that may be temporary. It stops
// when the retry time has passed since the first failure. Waiting for a connection that other calls use is not
// limited. op must be safe to repeat after a failure for which isUnknown is true.
func (s *Store) retry(ctx context.Context, op func(context.Context, *pgx.Conn) error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, lastPause
	var failed time.Time
	for {
		err := s.try(ctx, op)
		if o := (*outage)(nil); !errors.As(err, &o) {
			return err
		}
		if failed.IsZero() {
			failed = time.Now()
		}
		pause := pauses.NextBackOff()
		if time.Since(failed)+pause > s.retryT {
			if s.retryT == 0 {
				return err
			}
			return fmt.Errorf("gave up after %s: %w", s.retryT, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try runs op once. If the failure may be temporary, the error is an outage.
func (s *Store) try(ctx context.Context, op func(context.Context, *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.acquireError(ctx, err)
	}
	defer pooled.Release() // the pool closes a broken connection
	conn := pooled.Conn()
	limited, cancel := ctx, context.CancelFunc(func() {})
	if s.retryT > 0 {
		limited, cancel = context.WithTimeout(ctx, s.retryT)
	}
	defer cancel()
	switch err = op(limited, conn); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return &outage{fmt.Errorf("the server did not answer for %s", s.retryT), code(err) != queryCanceled}
	case isConflict(err):
		return err
	case conn.IsClosed():
		return &outage{err, !pgconn.SafeToRetry(err)}
	}
	switch code(err) {
	case serializationFailure, deadlockDetected, lockNotAvailable, readOnlyTransaction, cachedPlan, uniqueViolation, foreignKeyViolation:
		return &outage{err, false}
	}
	return err
}

func (s *Store) acquireError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, puddle.ErrClosedPool):
		return errClosed
	}
	switch code(err) {
	case "", adminShutdown, crashShutdown, cannotConnectNow, tooManyConnections:
		return &outage{err, false}
	}
	return err
}

// begin starts a transaction in which each statement sees what was committed before it, whatever the database's
// default is. A server that does not notice a lost connection would keep the transaction's locks for hours, so the
// transaction ends after 2 s without a statement.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = '2s'`

// transaction runs op in a transaction, and retries it.
func (s *Store) transaction(ctx context.Context, op func(context.Context, pgx.Tx) error) error {
	return s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return op(ctx, tx) })
	})
}
