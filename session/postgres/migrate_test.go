package postgres_test

import (
	"context"
	_ "embed"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// rows returns what a query yields, each row as text.
func rows(t testing.TB, url, sql string) (out []string) {
	t.Helper()
	conn := must.Get(pgx.Connect(t.Context(), url))
	defer conn.Close(context.Background())
	result := must.Get(conn.Query(t.Context(), sql))
	for result.Next() {
		out = append(out, "")
		for _, v := range result.RawValues() {
			out[len(out)-1] += fmt.Sprintf("%q ", v)
		}
	}
	require.NoError(t, result.Err())
	return out
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

// TestOlderSchema: a database that is too old stays as it is, and the error says how to keep its sessions.
func TestOlderSchema(t *testing.T) {
	url := servers.Database(t)
	require.NoError(t, postgres.Migrate(t.Context(), url, 11))
	run(t, url, "UPDATE arbor.goose_db_version SET version_id = 10")
	_, err := postgres.Open(t.Context(), url)
	require.ErrorContains(t, err, "its schema arbor has version 10, which an older version of this program created; this program supports 11 and later: export its sessions")
	require.Equal(t, "10", run(t, url, "SELECT max(version_id) FROM arbor.goose_db_version"))
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
		lease := must.Get(sessiontest.Begin(t.Context(), s, key, 0, log[:n]...))
		if n != 5 { // whose lease is held
			require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
		}
	}
	whole := session.ID(fmt.Sprint("at", len(log)))
	for n := range len(log) {
		fork := session.ID(fmt.Sprint("fork", n))
		require.NoError(t, s.Fork(t.Context(), whole, int64(n), fork))
		require.NoError(t, s.Fork(t.Context(), fork, int64(n), session.ID(fmt.Sprint("again", n)), storetest.Text(int64(n)+1, "x")))
	}
	require.NoError(t, s.Delete(t.Context(), whole))
	require.NoError(t, s.Close())
	for _, sql := range []string{"DROP INDEX arbor.session_status", "DROP FUNCTION arbor.status_at", "DROP FUNCTION arbor.status_of", "ALTER TABLE arbor.session DROP COLUMN status, DROP COLUMN stop",
		"ALTER TABLE arbor.session RENAME COLUMN lease_random TO lease_fence", "DELETE FROM arbor.goose_db_version WHERE version_id > 11",
		"UPDATE arbor.log SET line = 'harness_end ? ? {' WHERE session = 4 AND seq = 4", "UPDATE arbor.log SET line = '{' WHERE session = 3 AND seq = 3"} {
		run(t, url, sql)
	}
	require.Equal(t, rows(t, old, schema), rows(t, url, schema))
	leases := rows(t, url, "SELECT key, lease_token, lease_fence, lease_until FROM arbor.session ORDER BY key")
	program := must.Get(pgx.Connect(t.Context(), url))
	defer program.Close(context.Background())
	const advance = "UPDATE arbor.session SET lease_fence = $1, seq = 100 WHERE id = 'at5'"
	_, err := program.Prepare(t.Context(), advance, advance)
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
		require.Equal(t, statusOf(storetest.Load(t, s, i.Key)), i.Status, i.Key.String())
		seen[i.Status]++
	}
	require.Len(t, seen, 6)
	_, err = program.Exec(t.Context(), advance, int64(1))
	require.ErrorContains(t, err, `"lease_fence"`)
	require.Equal(t, "5", run(t, url, "SELECT seq FROM arbor.session WHERE id = 'at5'"))

	// And the sessions continue.
	next := session.ID("at6")
	must.Get(sessiontest.Begin(t.Context(), s, next, 6, log[6]))
	info, _, err := session.Find(t.Context(), s, next)
	require.NoError(t, err)
	require.Equal(t, session.Status("").After(log[:7]...), info.Status)
}

// endings is a log of turns that end in each way.
func endings() (log []*event.Event) {
	add := func(turn, scope string, data event.Data) {
		n := int64(len(log)) + 1
		e := storetest.Text(n, "x")
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
