package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestEventsForSQL: the view has each event as the JSON that it was before it was stored as a
// line, byte for byte, and a load returns the same.
func TestEventsForSQL(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	db := raw(t, path)
	lease, err := sessiontest.Acquire(t.Context(), s, session.ID("s"), session.Self())
	require.NoError(t, err)
	events := sessiontest.OddEvents()
	require.NoError(t, sessiontest.Append(t.Context(), s, session.ID("s"), 0, lease, events...))
	var want strings.Builder
	for e, err := range s.Load(t.Context(), session.ID("s"), 0) {
		require.NoError(t, err)
		whole, err := events[e.Seq-1].MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, event.Decode(e.Seq, whole), e)
		fmt.Fprintf(&want, "%d|%s\n", e.Seq, whole)
	}
	require.Equal(t, want.String(), dump(t, path, "SELECT seq, json FROM event ORDER BY seq"))
	require.Greater(t, atoi(t, scalar(t, db, "SELECT count(*) FROM log WHERE line NOT GLOB '{*'")), 100, "so many are lines")
	// Damaged rows are there as they are.
	damaged := []string{"", "{", "text", "text a", "text a b c d e f g h {}", "text \xff b c d e f g 9 {}", "text a b c d e f g h i {}", "text a\" b c d e f g 9 {}", "\x00"}
	for i, line := range damaged {
		_, err := db.Exec("INSERT INTO log (session, seq, line) VALUES (1, ?, ?)", 1000+i, line)
		require.NoError(t, err)
	}
	require.Equal(t, fmt.Sprint(len(damaged)), scalar(t, db, "SELECT count(json) FROM event WHERE session = 1 AND seq >= 1000"))
}

// version5 makes a file as the program left it that stored events as whole JSON.
func version5(t testing.TB, more ...string) (path string) {
	t.Helper()
	var scripts []string
	for i, name := range []string{"0004_messages.sql", "0005_blobs.sql"} {
		script, err := os.ReadFile(filepath.Join("migrations", name))
		require.NoError(t, err)
		scripts = append(scripts, string(script), fmt.Sprintf("INSERT INTO schema_version (version, name) VALUES (%d, '%s')", 4+i, name))
	}
	path = fileOf(t, 3)
	require.NoError(t, raw(t, path, append(scripts, more...)...).Close())
	return path
}

// TestMigrateFromVersion5: events that are whole JSON stay so, and those that come are lines.
func TestMigrateFromVersion5(t *testing.T) {
	path := version5(t)
	const events = "SELECT session, seq, json FROM event ORDER BY session, seq"
	const sessions = "SELECT key, app, user, id, seq, created, updated, parent_key, parent_seq, lease_token, lease_host, lease_pid, lease_started, lease_until, lease_expires FROM session ORDER BY key"
	before := []string{dump(t, path, events), dump(t, path, sessions)}

	// A program of that version, which has the file open, and holds a lease on a session.
	old := raw(t, path, "PRAGMA foreign_keys = ON")
	page, err := old.Prepare("SELECT seq, json FROM event WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq")
	require.NoError(t, err)
	defer page.Close()
	insert, err := old.Prepare("INSERT INTO event (session, seq, json) VALUES (?, ?, ?)")
	require.NoError(t, err)
	defer insert.Close()
	trim, err := old.Prepare("DELETE FROM event WHERE session = ? AND seq > ?")
	require.NoError(t, err)
	defer trim.Close()

	clock := sessiontest.NewClock()
	clock.Advance(time.Hour)
	s := open(t, path, sqlite.WithClock(clock.Now))
	require.Equal(t, before, []string{dump(t, path, events), dump(t, path, sessions)})
	fresh := newFile(t)
	open(t, fresh)
	require.Equal(t, dump(t, fresh, schema), dump(t, path, schema))
	sound(t, path)

	story := session.ID("story")
	log := loadAll(t, s, story)
	lease, err := sessiontest.Acquire(t.Context(), s, story, session.Self())
	require.NoError(t, err)
	n := lease.Head.Seq
	require.NoError(t, sessiontest.Append(t.Context(), s, story, n, lease, batch(n, 3)...))
	require.NoError(t, s.Fork(t.Context(), story, n+1, session.ID("late fork")))
	require.Equal(t, append(log, batch(n, 1)...), loadAll(t, s, session.ID("late fork")))

	const says = "a newer version of this program has brought the file up to date"
	_, err = insert.Exec(lease.Incarnation, n+4, "{}")
	require.ErrorContains(t, err, says)
	_, err = trim.Exec(lease.Incarnation, 0)
	require.ErrorContains(t, err, says)
	var seq int64
	var whole string
	require.NoError(t, page.QueryRow(lease.Incarnation, n, n+1).Scan(&seq, &whole), "it reads what is new")
	require.Equal(t, batch(n, 1)[0], event.Decode(seq, []byte(whole)))
	for _, key := range []session.Key{story, session.ID("fork"), session.ID("late fork"), session.ID("orphan")} {
		require.NoError(t, s.Delete(t.Context(), key))
	}
	sound(t, path)
}

// TestMigrateLargeFile: the new form costs a large file of the version before nothing, since
// what is stored stays as it is.
func TestMigrateLargeFile(t *testing.T) {
	const events = 100_000
	path := version5(t, fmt.Sprintf(`WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < %d)
		INSERT INTO event (session, seq, json) SELECT 100, n, printf('{"seq":%%d,"id":"e%%d","type":"text","content":"%%s"}', n, n, hex(zeroblob(50))) FROM n`, events),
		fmt.Sprintf("INSERT INTO session (key, app, user, id, seq, created, updated) VALUES (100, 'app', 'local', 'large', %d, 1, 1)", events))
	pages := scalar(t, raw(t, path), "PRAGMA page_count")
	s := open(t, path)
	wal, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	require.Less(t, wal.Size(), int64(1<<20), "so little was written")
	require.InDelta(t, atoi(t, pages), atoi(t, scalar(t, raw(t, path), "PRAGMA page_count")), 10)
	n := int64(0)
	for e, err := range s.Load(t.Context(), session.ID("large"), 0) {
		require.NoError(t, err)
		n++
		require.Equal(t, n, e.Seq)
	}
	require.EqualValues(t, events, n)
}

// TestLossOfPowerWhileMigrating: the file is as it was, or brought up to date, and the next
// program to open it has every event.
func TestLossOfPowerWhileMigrating(t *testing.T) {
	path := version5(t)
	const events = "SELECT session, seq, json FROM event ORDER BY session, seq"
	want := dump(t, path, events)
	s, err := sqlite.Open(path)
	require.NoError(t, err)
	appendAll(t, s, session.ID("new"), batch(0, 1), 1)
	versions := map[string]bool{}
	cutPower(t, path, func(copied string) {
		versions[dump(t, copied, "SELECT max(version) FROM schema_version")] = true
		s, err := sqlite.Open(copied)
		require.NoError(t, err)
		require.Equal(t, want, dump(t, copied, "SELECT session, seq, json FROM event WHERE session <= 5 ORDER BY session, seq"))
		allVersions(t, copied)
		require.NoError(t, s.Close())
	})
	require.Len(t, versions, 2)
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
