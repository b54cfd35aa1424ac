package postgres_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestMain lets the test's own program play the other processes of some tests.
func TestMain(m *testing.M) {
	storetest.Main(m, func(role, url, name string, in *bufio.Reader) error {
		play := map[string]func(url, name string, in *bufio.Reader) error{"open": playOpen, "turns": playTurns, "machine": playMachine}[role]
		return play(url, name, in)
	})
}

// patient lets a store try as long as a busy machine may need. A test in which the server is away sets another time once the store is open.
var patient = postgres.WithRetryTime(2 * time.Minute)

func open(t testing.TB, url string, opts ...postgres.Option) *postgres.Store {
	t.Helper()
	s := must.Get(postgres.Open(t.Context(), url, append([]postgres.Option{patient}, opts...)...))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// run runs SQL beside the store, and returns the one value of its result, if any, as
// text.
func run(t testing.TB, url, sql string, args ...any) (out string) {
	t.Helper()
	conn := must.Get(pgx.Connect(context.Background(), url))
	defer conn.Close(context.Background())
	rows := must.Get(conn.Query(context.Background(), sql, args...))
	for rows.Next() {
		v, err := rows.Values()
		require.NoError(t, err)
		if len(v) > 0 {
			out = fmt.Sprint(v[0])
		}
	}
	require.NoError(t, rows.Err(), sql)
	return out
}

// waitFor waits until a query answers true.
func waitFor(t testing.TB, url, sql string) {
	t.Helper()
	must.Wait(t, func() bool { return run(t, url, sql) == "true" })
}

// save copies what the store has stored. What it returns puts the copy back.
func save(t testing.TB, url string) (restore func()) {
	t.Helper()
	tables := []string{"session", "log", "block", "state", "snapshot", "blob", "held"}
	schema := "saved_" + strings.ToLower(rand.Text())
	statements := []string{"CREATE SCHEMA " + schema}
	for _, name := range tables {
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s.%s AS TABLE arbor.%s", schema, name, name))
	}
	run(t, url, "DO $$ BEGIN "+strings.Join(statements, ";")+"; END $$")
	return func() {
		t.Helper()
		statements := []string{"SET LOCAL session_replication_role = replica"} // no triggers, no foreign keys
		for _, name := range tables {
			statements = append(statements, "DELETE FROM arbor."+name, fmt.Sprintf("INSERT INTO arbor.%s OVERRIDING SYSTEM VALUE TABLE %s.%s", name, schema, name))
		}
		run(t, url, "DO $$ BEGIN "+strings.Join(statements, ";")+"; END $$")
	}
}

func acquire(t testing.TB, s session.Store, key session.Key) session.Lease {
	t.Helper()
	return must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
}

func TestStore(t *testing.T) {
	url := servers.Database(t) // the suite's tests need no database of their own
	clock := sessiontest.NewClock()
	openStore := func(t *testing.T) session.Store { return open(t, url, postgres.WithClock(clock.Now)) }
	sessiontest.Run(t, openStore, sessiontest.Options{
		Advance:    clock.Advance,
		DeadOwners: true,
		Damage: func(t *testing.T, _ session.Store, key session.Key, seq int64, text string) {
			run(t, url, `UPDATE arbor.log SET line = $1 WHERE seq = $2 AND session =
				(SELECT key FROM arbor.session WHERE app = $3 AND user_id = $4 AND id = $5)`, text, seq, key.App, key.User, key.ID)
		},
		Peer: func(t *testing.T, _ session.Store) session.Store { return openStore(t) },
		Reopen: func(t *testing.T, old session.Store) session.Store {
			require.NoError(t, old.Close())
			return openStore(t)
		},
		Restore: func(t *testing.T, _ session.Store) func() { return save(t, url) },
	})
}
