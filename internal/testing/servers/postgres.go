package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresURL is the environment variable that names a PostgreSQL server for the
// tests, for example postgres://user@localhost:5432/postgres. Its user must be
// allowed to create databases. Without it a temporary server is started, and with
// "none" the tests find no PostgreSQL at all.
const PostgresURL = "ARBOR_TEST_POSTGRES"

// none is the value of [PostgresURL] and [RedisURL] that hides servers from the tests.
const none = "none"

// How long a server may take to start, and how often it is polled.
const (
	startTime  = 60 * time.Second
	pollPeriod = 5 * time.Millisecond
)

// errMissing means that a server is missing and cannot be started: the test is skipped.
var errMissing = errors.New("missing")

// shared is the cluster that all tests of a binary use. It is the one state that
// this package keeps, because a binary has no other place for it: the cluster
// ends when the binary does.
var shared = sync.OnceValues(func() (*Postgres, error) { return StartPostgres() })

// Database returns the URL of a new, empty database on a PostgreSQL server that
// all tests of the binary share: the one that [PostgresURL] names, or a temporary
// one, which is started now. The database is dropped when the test is over. The
// test is skipped if there is no PostgreSQL, and fails instead if CI is true.
func Database(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(PostgresURL); given != "" && given != none {
		return newDatabase(t, given)
	}
	p, err := shared()
	must(t, err)
	return newDatabase(t, p.URL("postgres"))
}

// NewPostgres starts a temporary PostgreSQL server of the test's own, which it
// may stop, kill and start again. Settings are those of postgresql.conf, in the
// form name=value. It is not the server that [PostgresURL] names.
func NewPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	p, err := StartPostgres(settings...)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("end the temporary PostgreSQL server: %v", err)
		}
	})
	return p
}

// Database returns the URL of a new, empty database of this server. It ends
// with the server.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	base := p.URL("postgres")
	name, err := createDatabase(t.Context(), base)
	must(t, err)
	return withDatabase(t, base, name)
}

// Quiet waits until a PostgreSQL server has no connection with this application name, and so has processed everything
// that a killed process had sent. The server may still be starting.
func Quiet(ctx context.Context, url, application string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		busy, err := connected(ctx, url, application)
		if err == nil && !busy {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(pollPeriod):
		}
	}
}

func connected(ctx context.Context, url, application string) (yes bool, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false, err
	}
	err = conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = $1", application).Scan(&yes)
	return yes, errors.Join(err, conn.Close(ctx))
}

func must(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, errMissing) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

func newDatabase(t testing.TB, base string) string {
	t.Helper()
	name, err := createDatabase(t.Context(), base)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := execute(ctx, base, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return withDatabase(t, base, name)
}

func createDatabase(ctx context.Context, base string) (name string, err error) {
	name = "arbor_test_" + strings.ToLower(rand.Text()[:12])
	if err := execute(ctx, base, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("create a database for the test: %w", err)
	}
	return name, nil
}

func execute(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

func withDatabase(t testing.TB, base, name string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil || u.Scheme == "" {
		t.Fatalf("%s must be a URL", PostgresURL)
	}
	u.Path = "/" + name
	return u.String()
}
