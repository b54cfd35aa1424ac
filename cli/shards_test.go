package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sharded"
	"github.com/agentarbor/arbor/session/sqlite"
)

// shardsFile writes a list of databases, which are files beside it.
func shardsFile(t *testing.T, dir, rest string, names ...string) string {
	t.Helper()
	text := "shards:\n"
	for _, name := range names {
		text += fmt.Sprintf("  - name: %s\n    db: %s.db\n", name, name)
	}
	path := filepath.Join(dir, "shards.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text+rest), 0o600))
	return path
}

// fill makes a session for each of ten users.
func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	var shards []sharded.Shard
	for _, name := range names {
		store, err := sqlite.Open(filepath.Join(dir, name+".db"))
		require.NoError(t, err)
		shards = append(shards, sharded.Shard{Name: name, Store: store})
	}
	store, err := sharded.New(shards)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	root, err := llmagent.New("support", "Answer.", scripted.Always("support", scripted.Reply(scripted.Text("Hello."))))
	require.NoError(t, err)
	r, err := runner.New(root, store)
	require.NoError(t, err)
	for i := range 10 {
		key := session.ID(fmt.Sprint("of", i))
		key.User = fmt.Sprint("user", i)
		for _, err := range r.Run(t.Context(), key, llm.UserText("hello")) {
			require.NoError(t, err)
		}
	}
}

// sessionsIn returns the sessions on a shard, without its notes.
func sessionsIn(t *testing.T, dir, name string) []session.Info {
	t.Helper()
	store, err := sqlite.Open(filepath.Join(dir, name+".db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	all, err := store.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(i session.Info) bool {
		return strings.HasPrefix(i.Key.ID, sharded.App) || i.Key.User == sharded.App || i.Key.App == sharded.App
	})
}

// Commands work on several databases as on one, and sessions move to one that is added and
// away from one that leaves.
func TestShards(t *testing.T) {
	t.Parallel()
	in, dir := invocation{home: t.TempDir(), unlawful: true}, t.TempDir() // a shard has notes, which are no logs of a runner; sessions check leaves them out
	fill(t, dir, "berlin", "paris")
	require.NotEmpty(t, sessionsIn(t, dir, "berlin"))
	require.NotEmpty(t, sessionsIn(t, dir, "paris"))
	run := func(status int, args ...string) outcome {
		t.Helper()
		got := in.run(t, append(args, "--db", filepath.Join(dir, "shards.yaml"))...)
		require.Equal(t, status, got.status, got.err)
		return got
	}
	all := func() {
		t.Helper()
		require.Contains(t, run(0, "sessions", "check").err, "11 sessions checked: nothing is wrong")
		require.Equal(t, 12, strings.Count(run(0, "sessions", "ls").out, "\n"))
	}

	shardsFile(t, dir, "", "berlin", "paris")
	require.Contains(t, run(0, "run", desk, "an invoice shows two charges", "--session", "s1").out, "support → billing")
	require.True(t, strings.HasPrefix(run(0, "run", desk, "hello again", "--session", "s1").out, "billing: "))
	all()
	in.stdin = "/session\n"
	require.Contains(t, run(0, "chat", desk, "--session", "s1").out, "session s1 in "+filepath.Join(dir, "shards.yaml"))
	in.stdin = ""

	shardsFile(t, dir, "former: [berlin, paris]\n", "berlin", "paris", "rome")
	got := run(0, "sessions", "rebalance")
	moved := len(sessionsIn(t, dir, "rome"))
	require.Positive(t, moved)
	require.Contains(t, got.err, fmt.Sprintf("arbor: %d session", moved))
	require.Contains(t, got.err, "moved; all are where they belong")
	shardsFile(t, dir, "", "berlin", "paris", "rome")
	all()

	// One leaves, but for a user who has a session under way there.
	path := shardsFile(t, dir, "former: [berlin, paris, rome]\n", "paris", "rome", "berlin")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	there := sessionsIn(t, dir, "berlin")
	require.Greater(t, len(there), 1)
	require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer("berlin.db\n", "berlin.db\n    leaving: true\n", "former: [berlin, paris, rome]\n", "").Replace(string(text))), 0o600))
	require.Contains(t, run(cli.StatusFindings, "sessions", "rebalance").err, fmt.Sprintf("0 sessions moved; %d stay on a database that is leaving", len(there)))
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "berlin.db\n", "berlin.db\n    leaving: true\n", 1)), 0o600))
	berlin, err := sqlite.Open(filepath.Join(dir, "berlin.db"))
	require.NoError(t, err)
	busy, err := berlin.Acquire(t.Context(), there[0].Key, session.Self())
	require.NoError(t, err)
	require.Contains(t, run(cli.StatusBusy, "sessions", "rebalance").err, fmt.Sprintf("%d sessions moved; 1 of users who have one under way", len(there)-1))
	require.NoError(t, berlin.Release(t.Context(), there[0].Key, busy))
	require.NoError(t, berlin.Close())
	require.Contains(t, run(0, "sessions", "rebalance").err, "1 session moved; all are where they belong")
	require.Empty(t, sessionsIn(t, dir, "berlin"))
	shardsFile(t, dir, "", "paris", "rome")
	all()
}

// A list of databases that is wrong is refused with the places of all mistakes, and no command
// shows a password.
func TestShardMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "shards.yml")
	for text, want := range map[string]string{
		"": "shards.yml:1: the file names no database",
		"shards:\n  - name: a\n    db: a.db\n  - name: b\n    db: a.db\n":       "shards.yml:5: db: this is the database of a as well",
		"shards:\n  - name: a\n  - db: postgres://u:se-cret@h/d\n":              "shards.yml:2: a shard has a name and a db",
		"shards:\n  - name: a\n    db: [\"postgres://u:se-cret@h/d\"]\n":        "shards.yml:3: ",
		"shards:\n  - name: a\n    db: host=h password=se-cret\n":               "shards.yml:3: db: words such as host=… are not understood",
		"shards:\n  - name: a\n    db: postgres://u:se-cret@127.0.0.1:1/d\n":    "shards.yml:2: shard a: the sessions' database postgres://u@127.0.0.1:1/d cannot be used",
		"shards:\n  - name: a\n    db: mysql://u:se-cret@h/d\n":                 "shard a: --db mysql://…",
		"shards:\n  - name: a\n    db: other.yaml\n":                            "shards.yml:3: db: a shard is a SQLite file or a postgres:// address, and no list of databases",
		"shards:\n  - name: a\n    db: \":memory:\"\n":                          "shards.yml:3: db: a shard is a SQLite file or a postgres:// address: what is kept in memory",
		"shards:\n  - name: a\n    db: a.db\n    leave: true\n":                 "shards.yml:4: ",
		"shards:\n  - name: a\n    db: a.db\n    leaving: true\n":               "shards.yml:1: every shard is leaving: sessions need one that stays",
		"shards:\n  - name: a\n    db: a.db\n    leaving: true\n  - db: b.db\n": "arbor: 1 problem in the list of databases\nHERE/shards.yml:5: a shard has a name and a db",
		"shards:\n  - name: a\n    db: a.db\nformer: [b]\n":                     "the former shard b is not among the shards",
		"shards:\n  - name: a\n    db: a.db\n---\nshards: []\n":                 "shards.yml:",
		"shards:\n  - name: a\n    db: a.db\n  - name: a\n    db: b.db\n":       "two shards are called a",
		"shards: a.db\n": "shards.yml:1: ",
		"shards:\n  - postgres://u:se-cret@h/d\n":                                         "shards.yml:2: a shard must be a mapping, not the text \"…\"",
		"shards: postgres://u:se-cret@h/d\n":                                              "shards.yml:1: shards must be a list, not the text \"…\"",
		"host=h password=se-cret\n":                                                       "shards.yml:1: a list of databases must be a mapping",
		"shards:\n  - name: a\n    postgres://u:se-cret@h/d: x\n":                         "shards.yml:3: unknown key \"…\"",
		"shards:\n  - name: a\n    db: a.db\n    leaving: u:se-cret@h/d\n":                "shards.yml:4: leaving must be true or false",
		"shards:\n  - name: postgres://u:se-cret@h/d\n    db: a.db\n":                     "shards.yml:2: name: a shard is called by a word",
		"shards:\n  - name: a\n    db: a.db\nformer: [a, \"postgres://u:se-cret@h/d\"]\n": "shards.yml:4: former has the names of shards",
		"shards:\n  - name: a\n    bd: a.db\n  - db: b.db\n":                              "3 problems in the list of databases\nHERE/shards.yml:",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got := invocation{}.run(t, "run", desk, "hello", "--db", path)
		require.Equal(t, cli.StatusUsage, got.status, "%s\n%s", text, got.err)
		require.Contains(t, got.err, strings.ReplaceAll(want, "HERE", dir), text)
		require.NotContains(t, got.err, "se-cret", text)
	}
	got := invocation{}.run(t, "sessions", "rebalance", "--db", filepath.Join(dir, "a.db"))
	require.Equal(t, cli.StatusUsage, got.status)
	require.Contains(t, got.err, "give --db FILE.yaml")
	got = invocation{}.run(t, "sessions", "ls", "--db", filepath.Join(dir, "nowhere.yaml"))
	require.Equal(t, cli.StatusUsage, got.status)
	require.Contains(t, got.err, "the list of databases cannot be read")
}

// A database that sessions have been in is never made anew, as a slip in its path would have it.
func TestShardThatIsMissing(t *testing.T) {
	t.Parallel()
	in, dir := invocation{home: t.TempDir()}, t.TempDir()
	fill(t, dir, "berlin")
	for _, rest := range []string{"former: [berlin, pariss]\n", "    leaving: true\n"} {
		path := shardsFile(t, dir, rest, "berlin", "pariss")
		for _, args := range [][]string{{"sessions", "rebalance"}, {"run", desk, "hello"}} {
			got := in.run(t, append(args, "--db", path)...)
			require.Equal(t, cli.StatusUsage, got.status, got.err)
			require.Contains(t, got.err, "shards.yaml:4: shard pariss: "+filepath.Join(dir, "pariss.db")+": there is no such sessions' file")
			require.NoFileExists(t, filepath.Join(dir, "pariss.db"))
		}
	}
}

// Two shards are not one database, however its path is written.
func TestShardTwice(t *testing.T) {
	t.Parallel()
	in, dir := invocation{home: t.TempDir()}, t.TempDir()
	fill(t, dir, "berlin")
	require.NoError(t, os.Symlink("berlin.db", filepath.Join(dir, "link.db")))
	path := filepath.Join(dir, "shards.yaml")
	for _, pair := range [][2]string{{"berlin.db", "./berlin.db"}, {"berlin.db", dir + "/../" + filepath.Base(dir) + "/berlin.db"}, {"link.db", "berlin.db"}, {"new.db", dir + "//new.db"}} {
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "shards:\n  - {name: a, db: %s}\n  - {name: b, db: %s}\n", pair[0], pair[1]), 0o600))
		got := in.run(t, "run", desk, "hello", "--db", path)
		require.Equal(t, cli.StatusUsage, got.status, got.err)
		require.Contains(t, got.err, "shards.yaml:3: db: this is the database of a as well", pair)
	}
}
