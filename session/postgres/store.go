package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/agentarbor/arbor/session"
)

// Store is a [session.Store] in a PostgreSQL database. It is safe for concurrent use. The zero value is not usable;
// see [Open].
type Store struct {
	name   string // the database's name in errors, without user and password
	pool   *pgxpool.Pool
	retryT time.Duration
	now    func() time.Time // nil: the server's clock
}

var _ session.Store = (*Store)(nil)

// Option configures a [Store].
type Option func(*Store)

// WithRetryTime sets how long a call retries after a temporary failure, such as a lost connection, before it returns
// an error. The time counts from the first failure. A server that does not answer for this time counts as a failure.
// With 0 a call is not retried. The end of the caller's context always ends the retries. Defaults to 10 s.
func WithRetryTime(d time.Duration) Option { return func(s *Store) { s.retryT = d } }

// defaultConnections is the size of the pool if the URL has no pool_max_conns. It lets the server commit several
// writes at once.
const defaultConnections = 10

// cancelTime is how long a canceled call waits for the server's confirmation.
const cancelTime = time.Second

// Open connects to the database that a URL names, such as
//
//	postgres://user:password@host:5432/database?sslmode=verify-full
//
// and creates the schema arbor in it, or brings it up to date. The parameters are
// those of pgx. pool_max_conns is the maximal number of connections; it defaults to 10, or to the
// number of CPUs if that is larger. Values that the URL does not contain come from the environment
// variables PGHOST, PGPASSWORD and so on. No error contains the password.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	s := &Store{retryT: 10 * time.Second}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("postgres: option %d is nil", i)
		}
		opt(s)
	}
	if s.retryT < 0 {
		return nil, errors.New("postgres: the time of WithRetryTime is negative: give 0 to try once")
	}
	config, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s.name = name(config.ConnConfig)
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, s.explain("open", err)
	}
	if err := s.prepare(ctx); err != nil {
		s.pool.Close()
		return nil, s.explain("open", err)
	}
	return s, nil
}

// Close closes the store after the calls in progress. A loop over Load fails at its next page. A second call does
// nothing.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// parse parses the URL. pgx's error for an invalid URL may quote it, so parse removes the password from it. A URL
// that cannot be parsed at all is not quoted.
func parse(raw string) (*pgxpool.Config, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("the URL of the database cannot be read: write it as postgres://user:password@host:5432/database, " +
			"and write all characters of the password except letters and digits as %XX")
	}
	config, err := pgxpool.ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("the URL of the database is wrong: %s", redact(err.Error(), u))
	}
	c := config.ConnConfig
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "arbor"
	}
	// If the context of a call ends, pgx cancels the call on the server too. The store then knows that the
	// call was not made, and the connection stays usable.
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelTime}
	}
	q := u.Query()
	if !q.Has("pool_max_conns") {
		config.MaxConns = max(config.MaxConns, defaultConnections)
	}
	if !q.Has("connect_timeout") {
		c.ConnectTimeout = 10 * time.Second
	}
	return config, nil
}

func redact(text string, u *url.URL) string {
	q := u.Query()
	secrets := []string{q.Get("password"), q.Get("sslpassword")}
	if p, ok := u.User.Password(); ok {
		_, escaped, _ := strings.Cut(u.User.String(), ":")
		secrets = append(secrets, p, escaped)
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
			text = strings.ReplaceAll(text, url.QueryEscape(secret), "…")
		}
	}
	return text
}

func name(c *pgx.ConnConfig) string {
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

// time returns the time for the statements. With nil they use the server's clock.
func (s *Store) time() *time.Time {
	if s.now == nil {
		return nil
	}
	now := s.now()
	return &now
}
