package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// dump returns the rows of a query, a line each.
func dump(t testing.TB, path, query string) string {
	t.Helper()
	db := raw(t, path)
	defer db.Close()
	rows, err := db.Query(query)
	require.NoError(t, err, query)
	columns, err := rows.Columns()
	require.NoError(t, err)
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	var out bytes.Buffer
	for rows.Next() {
		require.NoError(t, rows.Scan(dest...))
		for i, v := range values {
			if i > 0 {
				out.WriteByte('|')
			}
			if v != nil {
				fmt.Fprint(&out, v)
			}
		}
		out.WriteByte('\n')
	}
	require.NoError(t, errors.Join(rows.Err(), rows.Close()))
	return out.String()
}

// sound requires that a file is whole, and holds nothing that nothing leads to.
func sound(t testing.TB, path string) {
	t.Helper()
	db := raw(t, path)
	defer db.Close()
	require.Equal(t, "ok", scalar(t, db, "PRAGMA integrity_check"))
	for what, query := range map[string]string{
		"rows that refer to none":              "SELECT count(*) FROM pragma_foreign_key_check",
		"deleted sessions without forks":       "SELECT count(*) FROM session s WHERE id IS NULL AND NOT EXISTS (SELECT 1 FROM session f WHERE f.parent_key = s.key)",
		"snapshots of deleted sessions":        "SELECT count(*) FROM snapshot o JOIN session s ON s.key = o.session WHERE s.id IS NULL",
		"forks that hang too low":              "SELECT count(*) FROM session f JOIN session p ON p.key = f.parent_key WHERE p.parent_key IS NOT NULL AND f.parent_seq <= p.parent_seq",
		"events behind the end or in the past": "SELECT count(*) FROM log e JOIN session s ON s.key = e.session WHERE s.id IS NOT NULL AND (e.seq > s.seq OR e.seq <= coalesce(s.parent_seq, 0))",
		"sessions without all of their events": "SELECT count(*) FROM session s WHERE id IS NOT NULL AND (SELECT count(*) FROM log WHERE session = key) <> seq - coalesce(parent_seq, 0)",
		"events that only deleted ones had": `SELECT count(*) FROM log e JOIN session s ON s.key = e.session
			WHERE s.id IS NULL AND e.seq > (SELECT max(f.parent_seq) FROM session f WHERE f.parent_key = s.key)`,
		"deleted ones that lack shared events": `SELECT count(*) FROM session s WHERE id IS NULL
			AND (SELECT count(*) FROM log WHERE session = key) <> (SELECT max(f.parent_seq) FROM session f WHERE f.parent_key = s.key) - coalesce(s.parent_seq, 0)`,
	} {
		require.Equal(t, "0", scalar(t, db, query), what)
	}
}

// oneSchema requires that the schema of a file was created once.
func oneSchema(t testing.TB, path string) {
	t.Helper()
	require.Equal(t, "12|schema.sql\n", dump(t, path, "SELECT version, name FROM schema_version"))
}

// TestSchemaIsWholeOrNot: a file in which the schema cannot be created stays as it is.
func TestSchemaIsWholeOrNot(t *testing.T) {
	path := newFile(t)
	raw(t, path, fmt.Sprintf("PRAGMA application_id = %d", 0x4172626f), "CREATE TABLE held (x)") // the script's last table has this name, too
	_, err := sqlite.Open(path)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "table held already exists")
	require.Equal(t, "held\n", dump(t, path, "SELECT name FROM sqlite_master"))
}

// TestOlderSchema: a file that is too old stays as it is, and the error says how to keep its sessions.
func TestOlderSchema(t *testing.T) {
	path := newFile(t)
	require.NoError(t, must.Get(sqlite.Open(path)).Close())
	raw(t, path, "UPDATE schema_version SET version = 11")
	for _, opts := range [][]sqlite.Option{nil, {sqlite.ReadOnly()}} {
		_, err := sqlite.Open(path, opts...)
		require.ErrorContains(t, err, "it has schema 11, which an older version of this program wrote; this program supports 12: export its sessions")
	}
	require.Equal(t, "11|schema.sql\n", dump(t, path, "SELECT * FROM schema_version"))
}

// TestStatusOfForks: a fork has the status of its log, also if events before it are damaged.
func TestStatusOfForks(t *testing.T) {
	path := newFile(t)
	storetest.CheckForks(t, open(t, path), func() {
		raw(t, path, "UPDATE log SET line = 'harness_end ? ? {' WHERE seq = 5", "UPDATE log SET line = '{' WHERE seq = 10")
	})
}
