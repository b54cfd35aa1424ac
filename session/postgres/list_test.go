package postgres_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestPageIsPartOfAnIndex: nothing but the sessions of a page is read for it, and nothing
// is sorted.
func TestPageIsPartOfAnIndex(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	run(t, url, `INSERT INTO arbor.session (app, user_id, id, seq, created, updated)
		SELECT 'app', 'user' || n % 4, 'id' || n, 1, at, at FROM generate_series(1, 20000) AS n, LATERAL (SELECT timestamptz '2026-03-01' + n * interval '1 second' AS at) AS t`)
	run(t, url, "ANALYZE arbor.session")
	first, err := s.List(t.Context(), session.Key{App: "app", User: "user1"}, session.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, first, 50)
	require.Equal(t, "id19997", first[0].Key.ID)
	for _, after := range []session.Place{{}, first[49].Place()} {
		plan := planOf(t, url, session.Key{App: "app", User: "user1"}, session.Page{After: after, Limit: 50})
		require.Contains(t, plan, "session_updated")
		require.NotContains(t, plan, "Sort")
		require.NotContains(t, plan, "Seq Scan on session s")
	}
}

// planOf returns how the server reads a page.
func planOf(t testing.TB, url string, filter session.Key, page session.Page) string {
	t.Helper()
	q := postgres.ListSQL(filter, page, nil)
	query := q.SQL
	for i, arg := range slices.Backward(q.Args) {
		literal := fmt.Sprintf("'%v'", arg)
		switch arg := arg.(type) {
		case *time.Time:
			literal = "now()"
		case time.Time:
			literal = fmt.Sprintf("'%s'", arg.Format(time.RFC3339Nano))
		}
		query = strings.ReplaceAll(query, fmt.Sprint("$", i+1), literal)
	}
	return strings.Join(rows(t, url, "EXPLAIN "+query), "\n")
}

// TestARareStatusIsNoScan: of many sessions those are read that have the status, and for a page of a user's only its own.
func TestARareStatusIsNoScan(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	run(t, url, `INSERT INTO arbor.session (app, user_id, id, seq, created, updated, status)
		SELECT 'app', 'user' || n % 4, 'id' || n, 1, at, at, CASE WHEN n % 1000 < 4 THEN 'waiting' ELSE 'done' END
		FROM generate_series(1, 20000) AS n, LATERAL (SELECT timestamptz '2026-03-01' + n * interval '1 second' AS at) AS t`)
	run(t, url, "ANALYZE arbor.session")
	for filter, want := range map[session.Key]int{{App: "app", User: "user1"}: 20, {App: "app"}: 80, {User: "user1"}: 20, {}: 80} {
		found, err := s.List(t.Context(), filter, session.Page{Status: session.StatusWaiting})
		require.NoError(t, err)
		require.Equal(t, want, len(found))
		for _, page := range []session.Page{{}, {Limit: 5}, {After: found[2].Place(), Limit: 5}} {
			page.Status = session.StatusWaiting
			plan := planOf(t, url, filter, page)
			require.Contains(t, plan, "session_status", "%v %v", filter, page)
			require.NotContains(t, plan, "Seq Scan on session s", plan)
			if filter.App != "" && filter.User != "" && page.Limit > 0 {
				require.NotContains(t, plan, "Sort", plan)
			}
		}
	}
}

// TestOrphansAreNoScan: of many sessions those are read that somebody holds, or held when he died, whether the
// server has looked at the tables before or not.
func TestOrphansAreNoScan(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	run(t, url, `INSERT INTO arbor.session (app, user_id, id, seq, created, updated)
		SELECT 'app', 'user' || n % 4, 'id' || n, 1, at, at FROM generate_series(1, 10000) AS n, LATERAL (SELECT timestamptz '2026-03-01' + n * interval '1 second' AS at) AS t`)
	run(t, url, "ANALYZE arbor.session")
	last := session.Place{Updated: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Key: session.Key{App: "app", User: "user1", ID: "id1"}}
	noScan := func() {
		t.Helper()
		for _, page := range []session.Page{{}, {Limit: 100}, {After: last, Limit: 100}} {
			q := postgres.OrphansSQL(page, nil)
			literals := []string{"now()", "'15 s'", "'host'", "1", "1"}
			if page.After != (session.Place{}) {
				literals = append(literals, "'2026-03-01 12:00:00Z'", "'app'", "'user1'", "'id1'")
			}
			if page.Limit > 0 {
				literals = append(literals, strconv.Itoa(page.Limit))
			}
			require.Len(t, q.Args, len(literals))
			query := q.SQL
			for i, arg := range slices.Backward(literals) {
				query = strings.ReplaceAll(query, fmt.Sprint("$", i+1), arg)
			}
			plan := strings.Join(rows(t, url, "EXPLAIN "+query), "\n")
			require.Contains(t, plan, "Seq Scan on held")
			require.NotContains(t, plan, "Seq Scan on session", plan)
		}
	}
	noScan()
	for i := 1; i <= 5; i++ {
		key := session.Key{App: "app", User: fmt.Sprint("user", i%4), ID: fmt.Sprint("id", i)}
		lease := acquire(t, s, key)
		if i > 1 {
			must.Get(s.Write(t.Context(), key, session.Write{Lease: lease, Abandon: true}))
		}
	}
	require.Len(t, must.Get(s.Orphans(t.Context(), session.Page{})), 4)
	noScan()
	run(t, url, "ANALYZE arbor.held")
	noScan()
	run(t, url, "UPDATE arbor.session SET lease_until = now(), lease_token = 1 WHERE key % 10 = 0")
	run(t, url, "ANALYZE arbor.held")
	noScan()
}

// TestLeasesTouchNoIndex: what leases change is in no index of the sessions, so that their updates stay within a
// page of the table (heap-only tuples).
func TestLeasesTouchNoIndex(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	const turns = 20
	for range turns {
		lease := acquire(t, s, session.ID("s"))
		require.NoError(t, sessiontest.Renew(t.Context(), s, session.ID("s"), lease))
		require.NoError(t, sessiontest.Release(t.Context(), s, session.ID("s"), lease))
	}
	require.NoError(t, s.Close()) // a server tells what a connection did when it ends
	waitFor(t, url, fmt.Sprintf("SELECT n_tup_upd = %d FROM pg_stat_user_tables WHERE schemaname = 'arbor' AND relname = 'session'", 3*turns))
	require.Equal(t, fmt.Sprint(3*turns), run(t, url, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'arbor' AND relname = 'session'"))
	require.Equal(t, "0", run(t, url, "SELECT count(*) FROM arbor.held"))
}
