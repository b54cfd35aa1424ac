package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

func TestRemoveSessions(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.sessions(t, "fork", "story", "--at", "7", "--to", "fork")
	s.sessions(t, "fork", "story", "--at", "2", "--to", "other")

	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"rm"}, "arbor: ID is missing; see arbor sessions rm --help\n"},
		{[]string{"rm", "nobody"}, "arbor: there is no session \"nobody\" in " + s.db + "\n"},
		{[]string{"rm", "fork", "nobody"}, "arbor: there is no session \"nobody\" in " + s.db + "\n"},
		{[]string{"rm", ""}, "arbor: session \"\": an id has 1 to 200 bytes of text without control characters and without space around it\n"},
	} {
		got := s.try(t, c.args...)
		require.Equal(t, cli.StatusUsage, got.status)
		require.Equal(t, c.says, got.err)
	}

	store := must.Get(sqlite.Open(s.db))
	lease := must.Get(sessiontest.Acquire(t.Context(), store, session.ID("story"), session.Self()))
	got := s.try(t, "rm", "fork", "story")
	require.Equal(t, cli.StatusBusy, got.status)
	require.Contains(t, got.err, "session story has a turn under way, and nothing was removed: ")
	again, err := sessiontest.Acquire(t.Context(), store, session.ID("fork"), session.Self())
	require.NoError(t, err, "the lease of the other one was given back")
	require.NoError(t, sessiontest.Release(t.Context(), store, session.ID("fork"), again))
	require.NoError(t, sessiontest.Release(t.Context(), store, session.ID("story"), lease))
	require.NoError(t, store.Close())
	require.NotEmpty(t, s.sessions(t, "show", "fork").out, "nothing was removed")

	got = s.sessions(t, "rm", "story", "other", "app/local/story")
	require.Equal(t, "arbor: removed session story, which had 27 events\narbor: removed session other, which had 2 events\n", got.err)
	require.Empty(t, got.out)
	require.Equal(t, cli.StatusUsage, s.try(t, "show", "story").status)
	require.Contains(t, s.sessions(t, "history", "fork").out, "lookup: 2 rows", "a fork keeps what it shares")
}
