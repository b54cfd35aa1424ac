package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
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
	last := first[49]
	query, args := postgres.ListSQL(session.Key{App: "app", User: "user1"}, session.Page{After: last.Place(), Limit: 50}, nil)
	for i, arg := range slices.Backward([]string{"'app'", "'user1'", "''", "now()", "'15 s'", fmt.Sprintf("'%s'", last.Updated.Format("2006-01-02T15:04:05.999999Z07:00")), "'app'", "'user1'", "'" + last.Key.ID + "'", "50"}) {
		query = strings.ReplaceAll(query, fmt.Sprint("$", i+1), arg)
	}
	require.Len(t, args, 10)
	plan := strings.Join(rows(t, url, "EXPLAIN "+query), "\n")
	require.Contains(t, plan, "session_updated")
	require.NotContains(t, plan, "Sort")
	require.NotContains(t, plan, "Seq Scan on session s")
}
