package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
)

// TestGraphRunBusy: a run that another process keeps from beginning says so, and does
// not tell of the other one's as if it were its own.
func TestGraphRunBusy(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": triage, "classifier.md": "---\nname: intent-classifier\n---\nYou classify.\n",
		"billing.md": "---\nname: billing-support\n---\nYou bill.\n", "general.md": "---\nname: general-support\n---\nYou help.\n"})
	answer, asked, release := slow(`{"intent": "none"}`)
	in := invocation{home: t.TempDir(), env: serve(t, answers(answer, scripted.Reply(scripted.Text("Hello."))))}
	flags := []string{"--session", "s1", "--db", filepath.Join(t.TempDir(), "s.db"), "--json"}
	first := in.start(t, append([]string{"graph", "run", f["g.yaml"], "--text", "hi"}, flags...)...)
	receive(t, asked)
	got := in.run(t, append([]string{"graph", "run", f["g.yaml"], "--text", "me too"}, flags...)...)
	require.Equal(t, cli.StatusBusy, got.status, got.err)
	require.Empty(t, got.out)
	require.Regexp(t, `^arbor: session app/local/s1: .*session is busy with another turn; to follow its turn: arbor sessions follow s1( --db .*)?\n$`, got.err)
	close(release)
	require.Equal(t, 0, first.wait(t).status)
}
