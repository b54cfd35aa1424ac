package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// version10 makes a file as the program with the first schema left it: sessions at each position of a log, and forks of them.
func version10(t testing.TB, more ...string) (path string) {
	t.Helper()
	old := newFile(t)
	base := must.Get(os.ReadFile("migrations/0010_base.sql"))
	raw(t, old, "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT", string(base),
		"INSERT INTO schema_version VALUES (10, '0010_base.sql')", fmt.Sprintf("PRAGMA application_id = %d", 0x4172626f), "PRAGMA journal_mode = WAL")

	// Sessions of this version, in a file that is put back to the version before.
	path = newFile(t)
	s := open(t, path)
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
	db := raw(t, path, append([]string{"DROP INDEX session_status", "DROP VIEW turning", "DROP TRIGGER session_lease_of_schema_10", "DROP TRIGGER held_taken",
		"UPDATE session SET lease = token WHERE id IS NOT NULL", "ALTER TABLE session DROP COLUMN token", "ALTER TABLE session DROP COLUMN status", "ALTER TABLE session DROP COLUMN stop",
		`CREATE TRIGGER held_taken AFTER UPDATE OF lease ON session WHEN NEW.lease_until IS NOT NULL AND NEW.lease <> OLD.lease BEGIN
	INSERT OR IGNORE INTO held (session) VALUES (NEW.key);
END`,
		"DELETE FROM schema_version WHERE version > 10",
		"UPDATE log SET line = 'harness_end ? ? {' WHERE session = 4 AND seq = 4", "UPDATE log SET line = '{' WHERE session = 3 AND seq = 3"}, more...)...)
	require.Equal(t, dump(t, old, schema), dump(t, path, schema))
	require.NoError(t, db.Close())
	return path
}

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

// allVersions requires that a file has had each migration once.
func allVersions(t testing.TB, path string) {
	t.Helper()
	files := must.Get(os.ReadDir("migrations"))
	var want strings.Builder
	for i, f := range files {
		fmt.Fprintf(&want, "%d|%s\n", 10+i, f.Name())
	}
	require.Equal(t, want.String(), dump(t, path, "SELECT version, name FROM schema_version ORDER BY version"))
}

const schema = "SELECT type, name, tbl_name, replace(sql, '\"', '') FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name"

// TestMigrateFromVersion10: the statuses of the sessions are those of their logs, forks and damaged events included. A program of that
// version that has the file open stores nothing any more.
func TestMigrateFromVersion10(t *testing.T) {
	path, log := version10(t), endings()
	db := raw(t, path)
	writes, err := db.Prepare("UPDATE session SET lease = ?, seq = ? WHERE id = 'at5'")
	require.NoError(t, err)
	defer writes.Close()
	reads, err := db.Prepare("SELECT seq, lease FROM session WHERE id = 'at5'")
	require.NoError(t, err)
	defer reads.Close()
	tokens := dump(t, path, "SELECT key, lease, lease_nonce, lease_until FROM session ORDER BY key")

	s := open(t, path)
	fresh := newFile(t)
	open(t, fresh)
	require.Equal(t, dump(t, fresh, schema), dump(t, path, schema))
	allVersions(t, path)
	sound(t, path)
	require.Equal(t, tokens, dump(t, path, "SELECT key, token, lease_nonce, lease_until FROM session ORDER BY key"))
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, 3*len(log)-1)
	seen := map[session.Status]int{}
	for _, i := range infos {
		var fold session.Fold
		for _, e := range storetest.Load(t, s, i.Key) {
			fold.Apply(e)
		}
		require.Equal(t, fold.Status(), i.Status, i.Key.String())
		seen[i.Status]++
	}
	require.Len(t, seen, 6)
	_, err = writes.Exec(1, 100)
	require.ErrorContains(t, err, "end this one, and start the newer version")
	var seq, token int64
	require.NoError(t, reads.QueryRow().Scan(&seq, &token))
	require.EqualValues(t, 5, seq)

	// And the sessions continue.
	next := session.ID("at6")
	lease := must.Get(sessiontest.Begin(t.Context(), s, next, 6, log[6]))
	require.EqualValues(t, 7, lease.Head.Seq)
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
			e.ID = fmt.Sprint("a word ", n) // it is stored as whole JSON
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

// TestMigrationIsWholeOrNot: a file that cannot be brought up to date stays as it
// is, so that the program that wrote it still works.
func TestMigrationIsWholeOrNot(t *testing.T) {
	path := version10(t)
	raw(t, path, "CREATE INDEX session_status ON session (id)") // the script's last statement has this name, too
	everything := func() string {
		return dump(t, path, schema) + dump(t, path, "SELECT * FROM log") + dump(t, path, "SELECT * FROM session") + dump(t, path, "SELECT * FROM sqlite_sequence")
	}
	before := everything()
	for range 2 {
		_, err := sqlite.Open(path)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "schema 0011_status.sql")
	}
	require.Equal(t, before, everything())
	raw(t, path, "DROP INDEX session_status")
	require.Len(t, storetest.Contents(t, open(t, path), session.ID("at29")), 29)
}

// TestOlderSchema: a file that is too old stays as it is, and the error says how to keep its sessions.
func TestOlderSchema(t *testing.T) {
	path := version10(t, "UPDATE schema_version SET version = 9")
	_, err := sqlite.Open(path)
	require.ErrorContains(t, err, "it has schema 9, which an older version of this program wrote; this program supports 10 and later: export its sessions")
	_, err = sqlite.Open(path, sqlite.ReadOnly())
	require.ErrorContains(t, err, "it has schema 9")
	require.Equal(t, "9|0010_base.sql\n", dump(t, path, "SELECT * FROM schema_version"))
}

// TestManyMigrateAtOnce: programs that start together all find the file ready.
func TestManyMigrateAtOnce(t *testing.T) {
	path := version10(t)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = playOpen(path, fmt.Sprint(i)) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	s := open(t, path)
	for i := range errs {
		require.Len(t, storetest.Contents(t, s, session.ID(fmt.Sprint(i))), 2)
	}
	require.Len(t, storetest.Contents(t, s, session.ID("at29")), 29)
	allVersions(t, path)
	sound(t, path)
}
