package sqlite_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
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

func atoi(t testing.TB, s string) int {
	t.Helper()
	return must.Get(strconv.Atoi(s))
}
