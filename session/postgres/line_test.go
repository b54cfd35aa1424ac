package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
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
		whole := must.Get(e.MarshalJSON())
		want = append(want, fmt.Sprintf("%q ", withoutNUL(string(whole))))
	}
	require.Equal(t, want, rows(t, url, "SELECT json FROM arbor.event ORDER BY seq"))
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		for i, e := range storetest.Load(t, open(t, url+"&default_query_exec_mode="+mode), session.ID("s")) {
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
		events = append(events, storetest.Text(int64(i+1), text))
	}
	lease := acquire(t, s, session.ID("s"))
	require.NoError(t, sessiontest.Append(t.Context(), s, session.ID("s"), 0, lease, events...))
	require.Equal(t, said, storetest.Contents(t, s, session.ID("s")))
	require.Equal(t, []string{fmt.Sprintf("%q %q ", "text", "\x00\x00\x00\x00\x00\x00\x00\x05")},
		rows(t, url, "SELECT json ->> 'type', count(*) FROM arbor.event GROUP BY 1"))
	for i, text := range shown {
		require.Equal(t, text, run(t, url, "SELECT json ->> 'content' FROM arbor.event WHERE seq = $1", i+1))
	}
}
