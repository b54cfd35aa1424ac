package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestEventsForSQL: the view has each event as the JSON that it was before it was stored as a
// line, byte for byte but for NUL, and a load returns the same, in the binary format and without.
func TestEventsForSQL(t *testing.T) {
	url := servers.Database(t)
	events := sessiontest.OddEvents()
	s := open(t, url)
	require.NoError(t, sessiontest.Append(t.Context(), s, session.ID("s"), 0, acquire(t, s, session.ID("s")), events...))
	var want []string
	for _, e := range events {
		whole, err := e.MarshalJSON()
		require.NoError(t, err)
		want = append(want, fmt.Sprintf("%q ", withoutNUL(string(whole))))
	}
	require.Equal(t, want, rows(t, url, "SELECT json FROM arbor.event ORDER BY seq"))
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		for i, e := range load(t, open(t, url+"&default_query_exec_mode="+mode), session.ID("s")) {
			whole, err := events[i].MarshalJSON()
			require.NoError(t, err)
			require.Equal(t, event.Decode(e.Seq, whole), e, mode)
		}
	}
	require.Equal(t, "text", run(t, url, "SELECT json ->> 'type' FROM arbor.event WHERE seq = 4"))
}

// withoutNUL returns a JSON text with U+FFFD for each NUL in its strings.
func withoutNUL(s string) string {
	escaped := strings.NewReplacer(`\\`, `\\`, `\u0000`, `\ufffd`)
	return escaped.Replace(s)
}

// TestNULInOneEvent: events that hold NUL do not end the queries that the documentation names, and what only looks like
// an escaped NUL stays.
func TestNULInOneEvent(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	said := []string{"a\x00b", "\x00", `\u0000`, `\` + "\x00", `\\u0000` + "\x00\x00"}
	shown := []string{"a\uFFFDb", "\uFFFD", `\u0000`, `\` + "\uFFFD", `\\u0000` + "\uFFFD\uFFFD"}
	var events []*event.Event
	for i, text := range said {
		events = append(events, saying(int64(i+1), text))
	}
	lease := acquire(t, s, session.ID("s"))
	require.NoError(t, sessiontest.Append(t.Context(), s, session.ID("s"), 0, lease, events...))
	require.Equal(t, said, contents(t, s, session.ID("s")))
	require.Equal(t, []string{fmt.Sprintf("%q %q ", "text", "\x00\x00\x00\x00\x00\x00\x00\x05")},
		rows(t, url, "SELECT json ->> 'type', count(*) FROM arbor.event GROUP BY 1"))
	for i, text := range shown {
		require.Equal(t, text, run(t, url, "SELECT json ->> 'content' FROM arbor.event WHERE seq = $1", i+1))
	}
}

// TestProgramOfVersion6GoesOn: a program that has the database open when it is brought up to
// date reads what is there and what comes, and is told to end when it appends.
func TestProgramOfVersion6GoesOn(t *testing.T) {
	url := servers.Database(t)
	loadDump(t, url)
	require.NoError(t, postgres.Migrate(t.Context(), url, 6))
	old, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer old.Close(t.Context())
	const page, insert = "SELECT seq, json::text FROM arbor.event WHERE session = $1 ORDER BY seq", "INSERT INTO arbor.event (session, seq, json) VALUES ($1, $2, $3::json)"
	before := rows(t, url, "SELECT session, seq, json FROM arbor.event ORDER BY 1, 2")
	for i := range before {
		before[i] = strings.ReplaceAll(before[i], `\\u0000`, `\\ufffd`)
	}
	for _, sql := range []string{page, insert} {
		_, err := old.Prepare(t.Context(), sql, sql)
		require.NoError(t, err)
	}

	s := open(t, url)
	require.Equal(t, before, rows(t, url, "SELECT session, seq, json FROM arbor.event ORDER BY 1, 2"))
	lease := acquire(t, s, session.ID("new"))
	require.NoError(t, sessiontest.Append(t.Context(), s, session.ID("new"), 0, lease, batch(0, 3)...))
	const says = "a newer version of this program has brought the database up to date"
	_, err = old.Exec(t.Context(), insert, lease.Incarnation, 4, "{}")
	require.ErrorContains(t, err, says)
	_, err = old.Exec(t.Context(), "DELETE FROM arbor.event WHERE session = $1", lease.Incarnation)
	require.ErrorContains(t, err, says)
	found, err := old.Query(t.Context(), page, lease.Incarnation)
	require.NoError(t, err)
	n := 0
	for found.Next() {
		var seq int64
		var whole string
		require.NoError(t, found.Scan(&seq, &whole))
		require.Equal(t, batch(seq-1, 1)[0], event.Decode(seq, []byte(whole)))
		n++
	}
	require.NoError(t, found.Err())
	require.Equal(t, 3, n)
}
