package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
)

// TestHeldStream: nothing of a streamed text is printed before its guard has passed it, and nothing at all if the guard
// refuses it.
func TestHeldStream(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"run": {"run", "pay"}, "run json": {"run", "pay", "--json"}, "chat": {"chat"}} {
		s := invocation{program: "guarded", home: t.TempDir(), stdin: "pay\n/quit\n", env: serve(t, answers(
			scripted.Reply(scripted.Think("Sec", "ret."), scripted.Text("Your card ", "is 4111", " 1111.", " Anything else?")), scripted.Reply(scripted.Text("Your ", "order ", "is 4111."))))}
		args = append(args, "--session", "a", "--db", filepath.Join(s.home, "s.db"))
		got := s.run(t, args...)
		for _, piece := range []string{"Your card", "4111", "1111", "Anything"} {
			require.NotContains(t, got.out+got.err, piece, name)
		}
		require.Contains(t, got.out+got.err, "no-cards", name)
		if name != "chat" {
			require.Equal(t, cli.StatusFailed, got.status, "%s: %s", name, got.err)
		}
		got = s.run(t, args...)
		require.Zero(t, got.status, "%s: %s", name, got.err)
		require.Equal(t, 1, strings.Count(got.out, "Your order is 4111."), "%s: %s", name, got.out)
	}
}
