package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestSessionsTakeWhatListPrints: every subcommand finds the session of each line that
// sessions ls prints, whatever is in its key.
func TestSessionsTakeWhatListPrints(t *testing.T) {
	t.Parallel()
	s := told{invocation{home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
	store := must.Get(sqlite.Open(s.db))
	keys := []session.Key{session.ID("plain"), session.ID("with/a/slash"), session.ID("helpdesk/a2a/c1"), session.ID("app/local/plain"),
		{App: "helpdesk", User: "a2a", ID: "c1"}, {App: "helpdesk", User: "a2a", ID: "plain"}, {App: "helpdesk", User: "a2a", ID: "x/y"},
		{App: "helpdesk", User: "ann", ID: "right\u202eleft"}, {App: "helpdesk", User: "ann", ID: strings.Repeat("long", 60)}}
	for _, key := range keys {
		lease := must.Get(sessiontest.Acquire(t.Context(), store, key, session.Self()))
		said := &event.Event{ID: "e", TurnID: "t", RunID: "r", Agent: "user", Seq: 1, Time: storyAt, Data: &event.User{Content: llm.Content{Text: "I am " + key.String()}}}
		require.NoError(t, sessiontest.Append(t.Context(), store, key, 0, lease, said))
		require.NoError(t, sessiontest.Release(t.Context(), store, key, lease))
	}
	require.NoError(t, store.Close())

	printed := make(map[string]bool)
	for _, line := range strings.Split(strings.TrimSpace(s.sessions(t, "ls").out), "\n")[1:] {
		printed[strings.Fields(line)[0]] = true
	}
	require.Len(t, printed, len(keys), "each is another one: %v", printed)
	seen := make(map[string]bool)
	for id := range printed {
		var e struct{ Content llm.Content }
		exported := s.sessions(t, "export", id).exits(t, 0, id)
		require.NoError(t, json.Unmarshal([]byte(exported.out), &e))
		seen[e.Content.Text] = true
		for _, args := range [][]string{{"show", id}, {"show", id, "--state"}, {"history", id}, {"replay", id}, {"diff", id, "plain"}, {"diff", "plain", id}, {"fork", id}} {
			got := s.sessions(t, args...).exits(t, 0, args)
			if args[0] == "fork" {
				require.Equal(t, 0, s.sessions(t, "show", strings.TrimSpace(got.out)).status, "what fork prints is taken as well")
			}
		}
		s.stdin = "else"
		require.Equal(t, 0, s.sessions(t, "edit", id, "--last").status)
	}
	require.Len(t, seen, len(keys), "and each names its own session: %v", seen)

	require.Contains(t, s.sessions(t, "show", "plain").out, "I am app/local/plain\n", "an id alone is the command's own")
	require.Contains(t, s.sessions(t, "show", "x/y").out, "I am helpdesk/a2a/x/y\n", "or the only one that has it")
	for _, none := range []string{"nobody/a2a/c1", "//c1", "helpdesk//c1", "/", "helpdesk/a2a/"} {
		got := s.run(t, "sessions", "show", none, "--db", s.db).exits(t, cli.StatusUsage)
		require.Contains(t, got.err, "there is no session")
	}
}
