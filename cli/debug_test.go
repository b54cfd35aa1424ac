package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/debugbundle"
)

// TestSessionsDebug: a session is explained by its log, and with the tree that it was of.
func TestSessionsDebug(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	run := func(status int, args ...string) outcome {
		t.Helper()
		got := invocation{home: home}.run(t, args...)
		require.Equal(t, status, got.status, got.err)
		return got
	}
	run(0, "run", desk, "my words are private", "--session", "s1")
	for _, args := range [][]string{nil, {"--tree", desk}} {
		var b debugbundle.Bundle
		got := run(0, append([]string{"sessions", "debug", "s1"}, args...)...)
		require.NoError(t, json.Unmarshal([]byte(got.out), &b))
		require.Equal(t, "s1", b.SessionID)
		require.Equal(t, "over", b.Turn)
		require.NotEmpty(t, b.Active)
		require.Equal(t, args != nil, b.AgentGraph.Topology != nil)
		require.NotContains(t, got.out, "private")
	}
	require.Contains(t, run(cli.StatusUsage, "sessions", "debug", "s1", "--decisions", "0").err, "give a whole number of at least 1")
	require.Contains(t, run(cli.StatusUsage, "sessions", "debug", "s2").err, "s2")
}
