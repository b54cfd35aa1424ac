package cli_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestBy: --by decides as a user of the users file, with the rights that the file gives then.
func TestBy(t *testing.T) {
	t.Parallel()
	s := told{invocation{program: "careful", home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
	users := filepath.Join(t.TempDir(), "users.json")
	s.env = serve(t, answers(scripted.Reply(scripted.Call("refund", "{}")), scripted.Reply(scripted.Text("Refunded."))))
	for name, may := range map[string]string{"sue": "approve", "bob": "desk"} {
		invocation{}.run(t, "users", "add", name, "--may", may, "--users", users).exits(t, 0)
	}
	run := s.run(t, "run", "refund it", "--session", "a", "--db", s.db).exits(t, cli.StatusApproval)
	call := regexp.MustCompile(`--approve (\S+) `).FindStringSubmatch(run.err)[1]

	for by, says := range map[string]string{"bob": "a colleague has to approve this", "eve": "no such user"} {
		run = s.run(t, "resume", "--session", "a", "--approve", call, "--by", by, "--users", users, "--db", s.db)
		require.Equal(t, cli.StatusUsage, run.status, run.err)
		require.Contains(t, run.err, says)
	}
	chat := s.invocation
	chat.stdin = "/approve\nyes\n/quit\n"
	run = chat.run(t, "chat", "--session", "a", "--by", "bob", "--users", users, "--db", s.db)
	require.Contains(t, run.err, "a colleague has to approve this")
	require.Equal(t, 2, strings.Count(run.err, "a colleague has to approve this"), "yes is no new message: %s", run.err)
	require.NotContains(t, run.out, "withdrawn")
	run = chat.run(t, "chat", "--session", "a", "--by", "eve", "--users", users, "--db", s.db).exits(t, cli.StatusUsage)
	require.Contains(t, run.err, "no such user")
	run = chat.run(t, "chat", "--server", "http://127.0.0.1:1", "--by", "sue")
	require.Contains(t, run.err, "--by and --server exclude each other")

	chat.stdin = "yes\n/quit\n"
	run = chat.run(t, "chat", "--session", "a", "--by", "sue", "--users", users, "--db", s.db).exits(t, 0)
	require.Contains(t, run.out, "refund → done")
	require.Regexp(t, `"type":"relay_resolved".*"by":"sue","rights":\["approve"\]`, s.sessions(t, "show", "a", "--json").out)
}

func TestSessionsCheck(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.sessions(t, "fork", "story", "--at", "7", "--to", "fork")
	got := s.sessions(t, "check")
	require.Empty(t, got.out)
	require.Equal(t, "arbor: 2 sessions checked: nothing is wrong\n", got.err)

	// Another program writes a second end of a run.
	store := must.Get(sqlite.Open(s.db))
	var last *event.Event
	for e, err := range store.Load(t.Context(), session.ID("story"), 0) {
		require.NoError(t, err)
		last = e
	}
	require.Equal(t, event.TypeHarnessEnd, last.Type())
	lease := must.Get(sessiontest.Acquire(t.Context(), store, session.ID("story"), session.Owner{Host: "test"}))
	again := *last
	again.Seq, again.ID = last.Seq+1, "twice"
	require.NoError(t, sessiontest.Append(t.Context(), store, session.ID("story"), last.Seq, lease, &again))
	require.NoError(t, sessiontest.Release(t.Context(), store, session.ID("story"), lease))
	require.NoError(t, store.Close())

	s.unlawful = true
	got = s.try(t, "check").exits(t, 3)
	require.Regexp(t, `^story: seq \d+: a harness_end after the end of its run\n`, got.out)
	require.Contains(t, got.err, "2 sessions checked: ")
	got = s.try(t, "check", "story", "--json").exits(t, 3)
	require.Regexp(t, `^\{"session":"story","seq":\d+,"message":"a harness_end after the end of its run"\}`, got.out)
	require.Equal(t, "arbor: 1 session checked: nothing is wrong\n", s.sessions(t, "check", "fork").err)

	got = s.try(t, "check", "nobody").exits(t, 2)
	require.Contains(t, got.err, `there is no session "nobody"`)
}

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
		got := s.try(t, c.args...).exits(t, cli.StatusUsage)
		require.Equal(t, c.says, got.err)
	}

	store := must.Get(sqlite.Open(s.db))
	lease := must.Get(sessiontest.Acquire(t.Context(), store, session.ID("story"), session.Self()))
	got := s.try(t, "rm", "fork", "story").exits(t, cli.StatusBusy)
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

// TestDamagedSession damages each event of a session in turn. Every command about it
// works, tells what cannot be read and what is around it, and a fork of it goes on.
func TestDamagedSession(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.unlawful = true
	db := must.Get(sql.Open("sqlite", s.db))
	defer func() { require.NoError(t, db.Close()) }()
	const row = " AND session = (SELECT key FROM session WHERE id = 'story')"
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	const events = 27
	tried := make(map[string]bool)
	for seq := 1; seq <= events; seq++ {
		var sound string
		require.NoError(t, db.QueryRow("SELECT json FROM event WHERE seq = ?"+row, seq).Scan(&sound))
		for i, damaged := range []string{strings.TrimSuffix(sound, "}") + `,"more":` + deep + "}", sound[:len(sound)/2]} {
			must.Get(db.Exec("UPDATE log SET line = ? WHERE seq = ?"+row, damaged, seq))
			require.Contains(t, s.sessions(t, "history", "story").out, fmt.Sprintf(" %d cannot be read: ", seq))
			if kind := kindOf.FindString(sound); i > 0 || tried[kind] {
				continue // of each type of events one is enough
			} else {
				tried[kind] = true
			}
			for _, args := range [][]string{{"show", "story"}, {"replay", "story", "--speed", "0"}, {"export", "story", "--format", "md"}} {
				if args[0] == "export" && strings.Contains(sound, `"scope"`) {
					continue // of inner scopes it has nothing
				}
				require.Contains(t, s.sessions(t, args...).all(), fmt.Sprintf(" %d cannot be read: ", seq), "%s", args)
			}
			lines := strings.Split(strings.TrimSpace(s.sessions(t, "export", "story").out), "\n")
			require.Len(t, lines, events)
			var e event.Event
			require.NoError(t, e.UnmarshalJSON([]byte(lines[seq-1])))
			require.Equal(t, event.TypeUnreadable, e.Type())
			for _, args := range [][]string{{"ls"}, {"show", "story", "--json"}, {"export", "story", "--format", "html"}, {"export", "story", "--format", "openai"},
				{"diff", "story", "story"}} {
				s.sessions(t, args...)
			}
			fork := fmt.Sprintf("fork%d", seq)
			s.sessions(t, "fork", "story", "--to", fork)
			s.run(t, "run", desk, "again", "--session", fork, "--db", s.db).exits(t, 0)
		}
		must.Get(db.Exec("UPDATE log SET line = ? WHERE seq = ?"+row, sound, seq))
	}
}

var kindOf = regexp.MustCompile(`"type":"[a-z_]+"`)

func (o outcome) all() string { return o.out + o.err }
