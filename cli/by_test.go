package cli_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
)

// TestBy: --by decides as a user of the users file, with the rights that the file gives then.
func TestBy(t *testing.T) {
	t.Parallel()
	s := told{invocation{program: "careful", home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
	users := filepath.Join(t.TempDir(), "users.json")
	s.env = serve(t, answers(scripted.Reply(scripted.Call("refund", "{}")), scripted.Reply(scripted.Text("Refunded."))))
	for name, may := range map[string]string{"sue": "approve", "bob": "desk"} {
		got := invocation{}.run(t, "users", "add", name, "--may", may, "--users", users)
		require.Equal(t, 0, got.status, got.err)
	}
	run := s.run(t, "run", "refund it", "--session", "a", "--db", s.db)
	require.Equal(t, cli.StatusApproval, run.status, run.err)
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
	run = chat.run(t, "chat", "--session", "a", "--by", "eve", "--users", users, "--db", s.db)
	require.Equal(t, cli.StatusUsage, run.status, run.err)
	require.Contains(t, run.err, "no such user")
	run = chat.run(t, "chat", "--server", "http://127.0.0.1:1", "--by", "sue")
	require.Contains(t, run.err, "--by and --server exclude each other")

	chat.stdin = "yes\n/quit\n"
	run = chat.run(t, "chat", "--session", "a", "--by", "sue", "--users", users, "--db", s.db)
	require.Equal(t, 0, run.status, run.err)
	require.Contains(t, run.out, "refund → done")
	require.Regexp(t, `"type":"relay_resolved".*"by":"sue","rights":\["approve"\]`, s.sessions(t, "show", "a", "--json").out)
}
