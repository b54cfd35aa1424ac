package sqlite_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// planOf returns how SQLite runs a statement.
func planOf(t *testing.T, path, query string) string {
	t.Helper()
	return dump(t, path, "EXPLAIN QUERY PLAN "+regexp.MustCompile(`\?\d+`).ReplaceAllString(query, "1"))
}

// place is where a page starts that is not the first.
var place = session.Place{Updated: time.Unix(1, 0), Key: session.Key{App: "app", User: "user", ID: "id"}}

// TestPageIsPartOfAnIndex: nothing but the sessions of a page is read for it, and nothing
// is sorted.
func TestPageIsPartOfAnIndex(t *testing.T) {
	path := newFile(t)
	open(t, path)
	for after, updated := range map[session.Place]string{{}: ">?)", place: ">? AND updated<?)"} {
		query := sqlite.ListSQL(session.Key{App: "app", User: "user"}, session.Page{After: after, Limit: 5})
		plan := planOf(t, path, query.SQL)
		require.Contains(t, plan, "SEARCH s USING INDEX session_updated (app=? AND user=? AND updated"+updated)
		require.NotContains(t, plan, "B-TREE")
	}
}

// TestARareStatusIsNoScan: of many sessions those are read that have the status, and for a page of a user's only its own.
func TestARareStatusIsNoScan(t *testing.T) {
	registerCounted()
	path := newFile(t)
	s := open(t, path, sqlite.WithDriver("sqlite-counted"))
	raw(t, path, `INSERT INTO session (app, user, id, seq, created, updated, status)
		WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
		SELECT 'app', 'user' || (n % 4), 'id' || n, 1, n, n, iif(n % 1000 < 4, 'waiting', 'done') FROM n`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			raw(t, path, "ANALYZE")
			s = open(t, path, sqlite.WithDriver("sqlite-counted"))
		}
		for after, updated := range map[session.Place]string{{}: ">?)", place: ">? AND updated<?)"} {
			page := session.Page{After: after, Limit: 5, Status: session.StatusWaiting}
			ofUser := planOf(t, path, sqlite.ListSQL(session.Key{App: "app", User: "user1"}, page).SQL)
			require.Contains(t, ofUser, "SEARCH s USING INDEX session_status (status=? AND app=? AND user=? AND updated"+updated)
			require.NotContains(t, ofUser, "B-TREE")
			require.Contains(t, planOf(t, path, sqlite.ListSQL(session.Key{}, page).SQL), "SEARCH s USING INDEX session_status (status=?")
		}
		for filter, want := range map[session.Key][2]int{{App: "app", User: "user1"}: {5, 10}, {App: "app"}: {5, 40}, {User: "user1"}: {5, 10}, {}: {5, 40}} {
			for i, page := range []session.Page{{Status: session.StatusWaiting, Limit: 5}, {Status: session.StatusWaiting}} {
				before := rowsRead.Load()
				found, err := s.List(t.Context(), filter, page)
				require.NoError(t, err)
				require.Equal(t, want[i], len(found), "%v", filter)
				require.EqualValues(t, want[i], rowsRead.Load()-before)
			}
		}
	}
}

// TestOrphansAreNoScan: of many sessions those are read that somebody holds, or held when he died.
func TestOrphansAreNoScan(t *testing.T) {
	registerCounted()
	path := newFile(t)
	s := open(t, path, sqlite.WithDriver("sqlite-counted"))
	raw(t, path, `INSERT INTO session (app, user, id, seq, created, updated)
		WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000) SELECT 'app', 'user' || (n % 4), 'id' || n, 1, n, n FROM n`, "ANALYZE")
	for i := range 5 {
		key := session.Key{App: "app", User: fmt.Sprint("user", i%4), ID: fmt.Sprint("id", i)}
		lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
		if i > 0 {
			must.Get(s.Write(t.Context(), key, session.Write{Lease: lease, Abandon: true}))
		}
	}
	for _, after := range []session.Place{{}, place} {
		plan := planOf(t, path, sqlite.OrphansSQL(session.Page{After: after}, time.Now()).SQL)
		require.Contains(t, plan, "SCAN h")
		require.Contains(t, plan, "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)")
		require.NotContains(t, plan, "SCAN s")
		require.NotContains(t, plan, "SCAN p")
	}
	before := rowsRead.Load()
	require.Len(t, must.Get(s.Orphans(t.Context(), session.Page{})), 4)
	require.EqualValues(t, 4, rowsRead.Load()-before, "and not the one that this process holds")
}
