package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session/postgres"
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
	require.NoError(t, open(t, url).Close())
	run(t, url, "UPDATE arbor.goose_db_version SET version_id = version_id - 1")
	_, err := postgres.Open(t.Context(), url)
	require.ErrorContains(t, err, "which an older version of this program created")
	require.ErrorContains(t, err, "export its sessions with that version, and import them into a new database")
	require.Equal(t, fmt.Sprint(postgres.SchemaVersion-1), run(t, url, "SELECT max(version_id) FROM arbor.goose_db_version"))
}

// TestStatusOfForks: a fork has the status of its log, also if events before it are damaged.
func TestStatusOfForks(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	storetest.CheckForks(t, s, func() {
		run(t, url, "UPDATE arbor.log SET line = 'harness_end ? ? {' WHERE seq = 5")
		run(t, url, "UPDATE arbor.log SET line = '{' WHERE seq = 10")
	})
}
