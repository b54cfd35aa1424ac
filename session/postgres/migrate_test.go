package postgres_test

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// version1 is what pg_dump made of a database of the first version.
//
//go:embed testdata/version1.sql
var version1 string

// rows returns what a query yields, each row as text.
func rows(t testing.TB, url, sql string) (out []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	result, err := conn.Query(t.Context(), sql)
	require.NoError(t, err)
	for result.Next() {
		out = append(out, "")
		for _, v := range result.RawValues() {
			out[len(out)-1] += fmt.Sprintf("%q ", v)
		}
	}
	require.NoError(t, result.Err())
	return out
}

// contentSQL is everything that a database of the first version holds.
var contentSQL = []string{`SELECT key, app, user_id, id, seq, created, updated, parent_key, parent_seq, fork_nonce,
	lease_token, lease_host, lease_pid, lease_started, lease_until FROM arbor.session ORDER BY key`, "SELECT * FROM arbor.event ORDER BY session, seq", "SELECT * FROM arbor.state ORDER BY 1, 2, 3, 4"}

func loadDump(t testing.TB, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.PgConn().Exec(t.Context(), version1).ReadAll()
	require.NoError(t, err)
}

// TestMigrateForward opens a database of the first version. All that was there is
// there as it was, with the blocks that a new database would have, and goes on.
func TestMigrateForward(t *testing.T) {
	url := servers.Database(t)
	loadDump(t, url)
	var before [][]string
	for _, sql := range contentSQL {
		content := rows(t, url, sql)
		require.NotEmpty(t, content)
		for i := range content { // which the view shows instead of NUL
			content[i] = strings.ReplaceAll(content[i], `\\u0000`, `\\ufffd`)
		}
		before = append(before, content)
	}
	s := open(t, url)
	require.Equal(t, fmt.Sprint(postgres.SchemaVersion), run(t, url, "SELECT max(version_id) FROM arbor.goose_db_version"))
	for i, sql := range contentSQL {
		require.Equal(t, before[i], rows(t, url, sql))
	}
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, 7)
	forks := 0
	for _, info := range infos {
		log := load(t, s, info.Key)
		require.Len(t, log, int(info.Seq))
		require.Equal(t, statusOf(log), info.Status)
		if info.Key.ID != "payloads" && info.Key.ID != "long" { // which are no conversations
			requireBlocks(t, url, info.Key, log, info.ParentSeq)
		}
		if info.ParentSeq > 0 {
			forks++
		}
	}
	require.Equal(t, 3, forks)

	// The table that is filled is the table that appends write.
	filled := rows(t, url, "SELECT * FROM arbor.block ORDER BY session, first_seq, id")
	require.Greater(t, len(filled), 15)
	run(t, url, "TRUNCATE arbor.block")
	for _, key := range rowKeys(t, url) {
		var events []*event.Event
		for _, text := range rowEvents(t, url, key) {
			e := new(event.Event)
			require.NoError(t, e.UnmarshalJSON([]byte(text)))
			events = append(events, e)
		}
		replay(t, s, url, key, events)
	}
	require.Equal(t, filled, rows(t, url, "SELECT * FROM arbor.block ORDER BY session, first_seq, id"))

	r := newRunner(t, s)
	for _, info := range infos {
		_, err := sessiontest.Acquire(t.Context(), s, info.Key, session.Self())
		if info.Key.ID == "payloads" { // its lease was held
			run(t, url, "UPDATE arbor.session SET lease_until = clock_timestamp() WHERE id = 'payloads'")
			continue
		}
		require.NoError(t, err)
		run(t, url, "UPDATE arbor.session SET lease_until = NULL WHERE id = $1", info.Key.ID)
		if info.Key.ID == "long" { // no turns
			continue
		}
		for _, err := range r.Resume(t.Context(), info.Key) {
			require.NoError(t, err)
		}
		for _, err := range r.Run(t.Context(), info.Key, llm.UserText("It goes on")) {
			require.NoError(t, err)
		}
		requireBlocks(t, url, info.Key, load(t, s, info.Key), info.ParentSeq)
	}
	lease := acquire(t, s, session.ID("new"))
	require.Greater(t, lease.Incarnation, int64(8), "keys of the old database do not come again")
}

func rowKeys(t testing.TB, url string) (keys []int64) {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	result, err := conn.Query(t.Context(), "SELECT key FROM arbor.session ORDER BY key")
	require.NoError(t, err)
	keys, err = pgx.CollectRows(result, pgx.RowTo[int64])
	require.NoError(t, err)
	return keys
}

func rowEvents(t testing.TB, url string, key int64) (events []string) {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	result, err := conn.Query(t.Context(), "SELECT json::text FROM arbor.event WHERE session = $1 ORDER BY seq", key)
	require.NoError(t, err)
	events, err = pgx.CollectRows(result, pgx.RowTo[string])
	require.NoError(t, err)
	return events
}

// replay appends a session's own events once more, one at a time.
func replay(t testing.TB, s session.Store, url string, key int64, events []*event.Event) {
	t.Helper()
	if len(events) == 0 {
		return
	}
	hidden := run(t, url, "SELECT id IS NULL FROM arbor.session WHERE key = $1", key) == "true"
	if hidden {
		run(t, url, "UPDATE arbor.session SET app = 'replay', user_id = 'replay', id = 'replay', created = now(), updated = now() WHERE key = $1", key)
		defer run(t, url, "UPDATE arbor.session SET app = NULL, user_id = NULL, id = NULL, seq = 0, created = NULL, updated = NULL, lease_until = NULL WHERE key = $1", key)
	}
	run(t, url, "DELETE FROM arbor.log WHERE session = $1", key)
	run(t, url, "UPDATE arbor.session SET seq = $2, lease_until = NULL WHERE key = $1", key, events[0].Seq-1)
	var name session.Key
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT app, user_id, id FROM arbor.session WHERE key = $1", key).Scan(&name.App, &name.User, &name.ID))
	lease := acquire(t, s, name)
	for _, e := range events {
		require.NoError(t, sessiontest.Append(t.Context(), s, name, e.Seq-1, lease, e))
	}
	require.NoError(t, sessiontest.Release(t.Context(), s, name, lease))
}

// TestMigrateStepByStep: a program that stops between two steps leaves a database
// that the next one continues to migrate.
func TestMigrateStepByStep(t *testing.T) {
	for version := 1; version <= postgres.SchemaVersion; version++ {
		url := servers.Database(t)
		loadDump(t, url)
		require.NoError(t, postgres.Migrate(t.Context(), url, version))
		s := open(t, url)
		log := load(t, s, session.ID("story"))
		requireBlocks(t, url, session.ID("story"), log, 0)
	}
}

// TestNewerSchema: a program of this version leaves a newer database alone.
func TestNewerSchema(t *testing.T) {
	url := servers.Database(t)
	require.NoError(t, open(t, url).Close())
	run(t, url, "INSERT INTO arbor.goose_db_version (version_id, is_applied) VALUES ($1, true)", postgres.SchemaVersion+1)
	_, err := postgres.Open(t.Context(), url)
	require.ErrorContains(t, err, "its schema arbor has version")
	require.ErrorContains(t, err, "update this program")
	require.ErrorContains(t, err, "postgres: open 127.0.0.1:")
}

// TestMigrateFromVersion7: who was left behind before a program knew of orphans is none, and whoever comes after it is one,
// also by a program of that version that still runs.
func TestMigrateFromVersion7(t *testing.T) {
	url := servers.Database(t)
	require.NoError(t, postgres.Migrate(t.Context(), url, 7))
	run(t, url, `INSERT INTO arbor.session (app, user_id, id, seq, created, updated, lease_token, lease_host, lease_pid, lease_started, lease_until)
		VALUES ('app', 'local', 'before', 1, now(), now(), 1, 'old.example', 1, 2, '2026-03-01')`)
	s := open(t, url)
	orphans := func() (ids []string) {
		t.Helper()
		infos, err := s.Orphans(t.Context(), session.Page{})
		require.NoError(t, err)
		for _, i := range infos {
			ids = append(ids, i.Key.ID)
		}
		return ids
	}
	require.Empty(t, orphans())
	run(t, url, `INSERT INTO arbor.session (app, user_id, id, lease_token, lease_host, lease_pid, lease_started, lease_until)
		VALUES ('app', 'local', 'new', 1, 'old.example', 1, 2, '2026-03-01')`)
	require.Empty(t, orphans(), "without events")
	run(t, url, "UPDATE arbor.session SET seq = 1, updated = now(), created = now() WHERE id = 'new'")
	require.Equal(t, []string{"new"}, orphans(), "an older program has died")
	run(t, url, "UPDATE arbor.session SET lease_token = lease_token + 1, lease_until = '2026-03-02' WHERE id = 'before'")
	require.Equal(t, []string{"new", "before"}, orphans())
	run(t, url, "UPDATE arbor.session SET lease_until = NULL WHERE id = 'new'")
	require.Equal(t, []string{"before"}, orphans(), "an older program has given it back")
	lease := acquire(t, s, session.ID("before"))
	require.NoError(t, sessiontest.Release(t.Context(), s, session.ID("before"), lease))
	require.Empty(t, orphans())
	require.Equal(t, "0", run(t, url, "SELECT count(*) FROM arbor.held"))
}

func statusOf(log []*event.Event) session.Status {
	var fold session.Fold
	for _, e := range log {
		fold.Apply(e)
	}
	return fold.Status()
}

// TestMigrateFromVersion11: the statuses of the sessions are those of their logs, forks and damaged events included. A program of that
// version that still runs stores nothing any more.
func TestMigrateFromVersion11(t *testing.T) {
	old := servers.Database(t)
	require.NoError(t, postgres.Migrate(t.Context(), old, 11))
	const schema = `SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'arbor'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
		UNION ALL SELECT proname, pg_get_function_identity_arguments(oid), '', false FROM pg_proc WHERE pronamespace = 'arbor'::regnamespace ORDER BY 1, 2`

	// Sessions of this version, in a database that is put back to the version before.
	url := servers.Database(t)
	s := open(t, url)
	log := endings()
	for n := 1; n <= len(log); n++ {
		key := session.ID(fmt.Sprint("at", n))
		lease, err := sessiontest.Begin(t.Context(), s, key, 0, log[:n]...)
		require.NoError(t, err)
		if n != 5 { // whose lease is held
			require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
		}
	}
	whole := session.ID(fmt.Sprint("at", len(log)))
	for n := range len(log) {
		fork := session.ID(fmt.Sprint("fork", n))
		require.NoError(t, s.Fork(t.Context(), whole, int64(n), fork))
		require.NoError(t, s.Fork(t.Context(), fork, int64(n), session.ID(fmt.Sprint("again", n)), saying(int64(n)+1, "x")))
	}
	require.NoError(t, s.Delete(t.Context(), whole))
	require.NoError(t, s.Close())
	for _, sql := range []string{"DROP INDEX arbor.session_status", "DROP FUNCTION arbor.status_at", "DROP FUNCTION arbor.status_of", "ALTER TABLE arbor.session DROP COLUMN status",
		"ALTER TABLE arbor.session RENAME COLUMN lease_random TO lease_fence", "DELETE FROM arbor.goose_db_version WHERE version_id = 12",
		"UPDATE arbor.log SET line = 'harness_end ? ? {' WHERE session = 4 AND seq = 4", "UPDATE arbor.log SET line = '{' WHERE session = 3 AND seq = 3"} {
		run(t, url, sql)
	}
	require.Equal(t, rows(t, old, schema), rows(t, url, schema))
	leases := rows(t, url, "SELECT key, lease_token, lease_fence, lease_until FROM arbor.session ORDER BY key")
	program, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer program.Close(context.Background())
	const advance = "UPDATE arbor.session SET lease_fence = $1, seq = 100 WHERE id = 'at5'"
	_, err = program.Prepare(t.Context(), advance, advance)
	require.NoError(t, err)

	s = open(t, url)
	fresh := servers.Database(t)
	open(t, fresh)
	require.Equal(t, rows(t, fresh, schema), rows(t, url, schema))
	require.Equal(t, leases, rows(t, url, "SELECT key, lease_token, lease_random, lease_until FROM arbor.session ORDER BY key"))
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Equal(t, 3*len(log)-1, len(infos))
	seen := map[session.Status]int{}
	for _, i := range infos {
		require.Equal(t, statusOf(load(t, s, i.Key)), i.Status, i.Key.String())
		seen[i.Status]++
	}
	require.Len(t, seen, 6)
	_, err = program.Exec(t.Context(), advance, int64(1))
	require.ErrorContains(t, err, `"lease_fence"`)
	require.Equal(t, "5", run(t, url, "SELECT seq FROM arbor.session WHERE id = 'at5'"))

	// And the sessions continue.
	next := session.ID("at6")
	_, err = sessiontest.Begin(t.Context(), s, next, 6, log[6])
	require.NoError(t, err)
	info, _, err := session.Find(t.Context(), s, next)
	require.NoError(t, err)
	require.Equal(t, session.Status("").After(log[:7]...), info.Status)
}

// endings is a log of turns that end in each way.
func endings() (log []*event.Event) {
	add := func(turn, scope string, data event.Data) {
		n := int64(len(log)) + 1
		e := saying(n, "x")
		e.TurnID, e.Scope, e.Data = turn, scope, data
		if n%3 == 0 {
			e.ID = fmt.Sprintf("a \"word\" %d", n) // it is stored as whole JSON
		}
		log = append(log, e)
	}
	for i, reason := range []event.FinishReason{event.FinishReasonStop, event.FinishReasonInputRequired, event.FinishReasonTransfer, event.FinishReasonError,
		event.FinishReasonLimit, event.FinishReasonCanceled, event.FinishReasonLength} {
		turn := fmt.Sprint("t", i)
		add(turn, "", &event.User{Content: llm.Content{Text: `{"type":"harness_end"}`}})
		add(turn, "", &event.HarnessStart{})
		add(turn, "inner", &event.HarnessEnd{FinishReason: event.FinishReasonError})
		add(turn, "", &event.State{Delta: map[string]any{"type": "user"}})
		add(turn, "", &event.HarnessEnd{FinishReason: reason})
		add(turn, "", &event.Text{Content: "harness_end"})
	}
	return log
}
