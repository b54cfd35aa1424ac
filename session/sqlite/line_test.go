package sqlite_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
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
	lease := must.Get(sessiontest.Acquire(t.Context(), s, session.ID("s"), session.Self()))
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
		must.Get(db.Exec("INSERT INTO log (session, seq, line) VALUES (1, ?, ?)", 1000+i, line))
	}
	require.Equal(t, fmt.Sprint(len(damaged)), scalar(t, db, "SELECT count(json) FROM event WHERE session = 1 AND seq >= 1000"))
}

// TestMigrateLargeFile: a large file is brought up to date without writing its events again.
func TestMigrateLargeFile(t *testing.T) {
	const events = 20_000
	path := version10(t, fmt.Sprintf(`WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < %d)
		INSERT INTO log (session, seq, line) SELECT 1000, n, printf('{"seq":%%d,"id":"e%%d","type":"text","content":"%%s"}', n, n, hex(zeroblob(50))) FROM n`, events),
		fmt.Sprintf("INSERT INTO session (key, app, user, id, seq, created, updated) VALUES (1000, 'app', 'local', 'large', %d, 1, 1)", events))
	pages := scalar(t, raw(t, path), "PRAGMA page_count")
	s := open(t, path)
	wal := must.Get(os.Stat(path + "-wal"))
	require.Less(t, wal.Size(), int64(1<<20), "so little was written")
	require.InDelta(t, atoi(t, pages), atoi(t, scalar(t, raw(t, path), "PRAGMA page_count")), 10)
	n := int64(0)
	for e, err := range s.Load(t.Context(), session.ID("large"), 0) {
		require.NoError(t, err)
		if n++; e.Seq != n {
			t.Fatalf("event %d is at %d", n, e.Seq)
		}
	}
	require.EqualValues(t, events, n)
}

// TestLossOfPowerWhileMigrating: the file is as it was, or brought up to date, and the next
// program to open it has every event.
func TestLossOfPowerWhileMigrating(t *testing.T) {
	path := version10(t)
	const events = "SELECT session, seq, json FROM event ORDER BY session, seq"
	want, last := dump(t, path, events), scalar(t, raw(t, path), "SELECT max(key) FROM session")
	s := must.Get(sqlite.Open(path))
	appendAll(t, s, session.ID("new"), storetest.Batch(0, 1), 1)
	versions := map[string]bool{}
	cutPower(t, path, func(copied string) {
		versions[dump(t, copied, "SELECT max(version) FROM schema_version")] = true
		s := must.Get(sqlite.Open(copied))
		require.Equal(t, want, dump(t, copied, "SELECT session, seq, json FROM event WHERE session <= "+last+" ORDER BY session, seq"))
		allVersions(t, copied)
		require.NoError(t, s.Close())
	})
	require.Len(t, versions, 2)
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	return must.Get(strconv.Atoi(s))
}
