package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGraphTestRefused: the cases of graphs that are to be refused are run as well, with
// the agents that exist for them.
func TestGraphTestRefused(t *testing.T) {
	t.Parallel()
	const invalid = "../agentgraph/testdata/invalid.yaml"
	got := invocation{}.run(t, "graph", "test", invalid, "--refs", "a-agent,b-agent,x-agent")
	require.Equal(t, 0, got.status, got.err+got.out)
	require.Contains(t, got.out, "ok   unknown-agentref\n")
	require.Contains(t, got.out, "13 cases passed\n")
	got = invocation{}.run(t, "graph", "test", invalid, "--run", "unknown-agentref|cycle-two", "--json")
	require.Equal(t, 3, got.status, got.err)
	require.Contains(t, got.out, `"name":"cycle-two","ok":true,"differences":[],"result":null}`)
	require.Contains(t, got.out, `"name":"unknown-agentref","ok":false,"differences":["code: got [], want [unknown_agent_ref]"],"result":null}`, "all agents exist unless it is said which")
}
