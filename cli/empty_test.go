package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
)

// A model that has nothing to say is no success: the status and standard error say so.
func TestEmptyAnswerIsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{false, true} {
		home := t.TempDir()
		env := serve(t, answers(scripted.Reply(scripted.Think("Hm.")), scripted.Reply(scripted.Text(" ")), scripted.Reply(scripted.Text("Here I am."))))
		run := []string{"run", desk, "hi", "--session", "s"}
		if events {
			run = append(run, "--json")
		}
		got := invocation{home: home, env: env}.run(t, run...)
		require.Equal(t, cli.StatusFailed, got.status)
		require.Contains(t, got.err, "agent support: empty answer: ")
		got = invocation{home: home, env: env}.run(t, run...)
		require.Equal(t, cli.StatusAnswered, got.status, got.err)
		require.Contains(t, got.out, "Here I am.")
	}
}
