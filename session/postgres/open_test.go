package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// enterable returns a temporary folder that the server's user may enter.
func enterable(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	return dir
}

// change replaces parts of a URL.
func change(t testing.TB, database string, edit func(*url.URL)) string {
	t.Helper()
	u := must.Get(url.Parse(database))
	edit(u)
	return u.String()
}

func TestOpenErrors(t *testing.T) {
	hba := filepath.Join(enterable(t), "pg_hba.conf")
	require.NoError(t, os.WriteFile(hba, []byte("host all bob 127.0.0.1/32 scram-sha-256\nhost all mallory 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 trust\n"), 0o644))
	p := servers.NewPostgres(t, "hba_file="+hba)
	good := p.Database(t)
	run(t, good, "CREATE ROLE bob LOGIN PASSWORD 'right'")
	run(t, good, "CREATE ROLE carol LOGIN")
	run(t, p.URL("postgres"), "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
	run(t, p.URL("postgres"), "CREATE DATABASE hasty")
	run(t, p.URL("postgres"), "ALTER DATABASE hasty SET synchronous_commit = off")
	taken := p.Database(t)
	run(t, taken, "CREATE SCHEMA arbor")

	const secret, escaped = "s3cr3t/%?&", "s3cr3t%2F%25%3F%26"
	as := func(user string) string {
		return change(t, good, func(u *url.URL) { u.User = url.UserPassword(user, secret) })
	}
	for _, tt := range []struct {
		name, url string
		says      []string
	}{
		{"no URL", "", []string{"cannot be read", "postgres://user:password@host:5432/database"}},
		{"a path", "/var/lib/sessions.db", []string{"cannot be read"}},
		{"words", "host=localhost password=" + secret, []string{"cannot be read"}},
		{"a bad escape", "postgres://bob:" + secret + "%zz@127.0.0.1/x", []string{"cannot be read", "characters of the password except letters and digits as %XX"}},
		{"a bad port", "postgres://bob:" + escaped + "@127.0.0.1:99999/x", []string{"the URL of the database is wrong"}},
		{"a bad parameter", "postgres://bob:" + escaped + "@127.0.0.1/x?sslmode=perhaps", []string{"the URL of the database is wrong", "sslmode"}},
		{"a password as a parameter", "postgres://bob@127.0.0.1/x?sslmode=perhaps&password=" + escaped, []string{"sslmode"}},
		{"a bad pool", "postgres://bob:" + escaped + "@127.0.0.1/x?pool_max_conns=many", []string{"pool_max_conns"}},
		{"nobody there", "postgres://bob:" + escaped + "@127.0.0.1:1/x", []string{"127.0.0.1:1/x", "cannot be reached", "gave up after 50ms"}},
		{"no such host", "postgres://bob:" + escaped + "@host.invalid/x", []string{"host.invalid:5432/x", "cannot be reached"}},
		{"a wrong password", as("bob"), []string{"refuses the user", "password"}},
		{"a refused user", as("mallory"), []string{"refuses the user"}},
		{"no such user", as("nobody"), []string{"refuses the user"}},
		{"no such database", change(t, as("postgres"), func(u *url.URL) { u.Path = "/missing" }), []string{"/missing", "the database does not exist", "create it"}},
		{"no right to create", as("carol"), []string{"lacks a right", "CREATE SCHEMA arbor AUTHORIZATION"}},
		{"another's schema", change(t, as("carol"), func(u *url.URL) { u.Path = mustPath(t, taken) }), []string{"lacks a right"}},
		{"another encoding", change(t, as("postgres"), func(u *url.URL) { u.Path = "/latin" }), []string{"LATIN1", "ENCODING 'UTF8'"}},
		{"commits that do not wait", change(t, as("postgres"), func(u *url.URL) { u.Path = "/hasty" }), []string{"synchronous_commit is off", "ALTER ROLE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			try := time.Minute // an answer of the server is not asked for again
			if slices.Contains(tt.says, "cannot be reached") {
				try = 50 * time.Millisecond
			}
			_, err := postgres.Open(t.Context(), tt.url, postgres.WithRetryTime(try))
			require.Error(t, err)
			for _, s := range tt.says {
				require.ErrorContains(t, err, s)
			}
			require.Equal(t, 1, strings.Count(err.Error(), "postgres: "), "one error: %v", err)
			for _, printed := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err)} {
				require.NotContains(t, printed, "s3cr3t")
			}
		})
	}
	_, err := postgres.Open(t.Context(), good, nil)
	require.ErrorContains(t, err, "option 0 is nil")
	_, err = postgres.Open(t.Context(), good, postgres.WithRetryTime(-1))
	require.ErrorContains(t, err, "negative")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = postgres.Open(ctx, good)
	require.ErrorIs(t, err, context.Canceled)

	// An administrator can make the schema for a user who may not.
	run(t, good, "CREATE SCHEMA arbor AUTHORIZATION carol")
	s := open(t, as("carol"))
	key := session.ID("s")
	lease := acquire(t, s, key)
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Batch(0, 3)...))
	require.Len(t, storetest.Load(t, s, key), 3)
	require.Equal(t, "0", run(t, good, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"))
	run(t, good, "GRANT USAGE ON SCHEMA arbor TO bob")
	_, err = postgres.Open(t.Context(), change(t, good, func(u *url.URL) { u.User = url.UserPassword("bob", "right") }))
	require.ErrorContains(t, err, "lacks a right")

	// Who may only read reads, and each write is refused.
	run(t, good, "GRANT SELECT ON ALL TABLES IN SCHEMA arbor TO bob")
	run(t, good, "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA arbor TO bob")
	reader := open(t, change(t, good, func(u *url.URL) { u.User = url.UserPassword("bob", "right") }))
	require.Len(t, storetest.Load(t, reader, key), 3)
	listed, err := reader.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, listed, 1)
	_, err = sessiontest.Acquire(t.Context(), reader, session.ID("new"), session.Self())
	require.ErrorContains(t, err, "lacks a right")

	// Later errors do not tell the password either.
	require.NoError(t, p.Stop())
	_, err = postgres.Open(t.Context(), as("bob"), postgres.WithRetryTime(0))
	require.ErrorContains(t, err, "cannot be reached")
	require.NotContains(t, err.Error(), "gave up")
	require.NotContains(t, err.Error(), "s3cr3t")
}

func mustPath(t testing.TB, database string) string {
	u := must.Get(url.Parse(database))
	return u.Path
}

// TestOtherSettings: nothing depends on the settings of the database or role.
func TestOtherSettings(t *testing.T) {
	url := servers.Database(t)
	for _, setting := range []string{"search_path = ''", "timezone = 'Asia/Kathmandu'", "datestyle = 'German'", "intervalstyle = 'iso_8601'", "bytea_output = 'escape'",
		"standard_conforming_strings = off", "extra_float_digits = 0", "plan_cache_mode = force_generic_plan", "enable_hashjoin = off"} {
		run(t, url, "ALTER DATABASE "+run(t, url, "SELECT current_database()")+" SET "+setting)
	}
	s, key := open(t, url), session.ID("s")
	r := newRunner(t, s)
	before := time.Now()
	_, err := turn(t.Context(), r, key, "I was charged twice")
	require.NoError(t, err)
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.WithinDuration(t, before, infos[0].Created, time.Minute)
	requireBlocks(t, url, key, storetest.Load(t, s, key), 0)
}

// TestPoolers: the store works with every way in which pgx can send statements,
// because poolers require some of them.
func TestPoolers(t *testing.T) {
	url := servers.Database(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		s, key := open(t, url+"&default_query_exec_mode="+mode), session.ID(mode)
		r := newRunner(t, s)
		for range 2 {
			_, err := turn(t.Context(), r, key, "I was charged twice")
			require.NoError(t, err, mode)
		}
		require.NoError(t, s.Fork(t.Context(), key, 4, session.ID("fork "+mode)))
		_, err := s.List(t.Context(), session.Key{}, session.Page{})
		require.NoError(t, err, mode)
		requireBlocks(t, url, key, storetest.Load(t, s, key), 0)
		require.NoError(t, s.Delete(t.Context(), key))
		require.Len(t, storetest.Load(t, s, session.ID("fork "+mode)), 4)
	}
}

func TestClose(t *testing.T) {
	url := servers.Database(t)
	s := must.Get(postgres.Open(t.Context(), url))
	key := session.ID("s")
	lease := acquire(t, s, key)
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Batch(0, 500)...))
	var last error
	count := 0
	for e, err := range s.Load(t.Context(), key, 0) { // closed while it reads
		if last = err; err == nil {
			count++
			if e.Seq == 1 {
				require.NoError(t, s.Close())
			}
		}
	}
	require.ErrorContains(t, last, "the store is closed")
	require.NotZero(t, count)
	require.NoError(t, s.Close(), "closing twice")
	closed := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, "the store is closed")
		require.NotContains(t, err.Error(), "gave up", "a closed store does not retry")
	}
	closed(sessiontest.Append(t.Context(), s, key, 500, lease, storetest.Batch(500, 1)...))
	_, err := sessiontest.Acquire(t.Context(), s, key, session.Self())
	closed(err)
	closed(sessiontest.Renew(t.Context(), s, key, lease))
	closed(sessiontest.Release(t.Context(), s, key, lease))
	closed(s.Delete(t.Context(), key))
	closed(s.Fork(t.Context(), key, 1, session.ID("f")))
	_, err = s.List(t.Context(), session.Key{}, session.Page{})
	closed(err)
	_, err = s.SharedState(t.Context(), key)
	closed(err)
	waitFor(t, url, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'arbor' AND datname = current_database()")
}

// TestWhatCannotBeKept: an event without a JSON form stores nothing of its batch,
// and a key that PostgreSQL cannot hold is refused; bytes that are no UTF-8 are
// replaced in events, as they are elsewhere.
func TestWhatCannotBeKept(t *testing.T) {
	s, key := open(t, servers.Database(t)), session.ID("s")
	lease := acquire(t, s, key)
	events := storetest.Batch(0, 2)
	for _, name := range []string{"own", "user:shared"} {
		events[1].Data = &event.State{Delta: map[string]any{name: func() {}}}
		require.ErrorContains(t, sessiontest.Append(t.Context(), s, key, 0, lease, events...), "e2")
	}
	require.Empty(t, storetest.Load(t, s, key))
	events[1].Data = &event.ToolResult{Name: "t", Output: json.RawMessage("\"a\xff\"")}
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, events...))
	require.Equal(t, "\"a\uFFFD\"", string(storetest.Load(t, s, key)[1].Data.(*event.ToolResult).Output))

	for _, bad := range []session.Key{{App: "a\x00b", User: "u", ID: "i"}, {App: "a", User: "\x00", ID: "i"}, {App: "a", User: "u", ID: "i\xff"}} {
		refused := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, agent.ErrBadInput)
			require.ErrorContains(t, err, "UTF-8")
		}
		_, err := sessiontest.Acquire(t.Context(), s, bad, session.Self())
		refused(err)
		refused(sessiontest.Append(t.Context(), s, bad, 0, lease, storetest.Batch(0, 1)...))
		refused(sessiontest.Renew(t.Context(), s, bad, lease))
		refused(sessiontest.Release(t.Context(), s, bad, lease))
		refused(s.Fork(t.Context(), key, 1, bad))
		refused(s.Fork(t.Context(), bad, 1, key))
		refused(s.Delete(t.Context(), bad))
		_, err = s.SharedState(t.Context(), bad)
		refused(err)
		_, err = s.List(t.Context(), bad, session.Page{})
		refused(err)
		for _, err := range s.Load(t.Context(), bad, 0) {
			refused(err)
		}
	}
}
