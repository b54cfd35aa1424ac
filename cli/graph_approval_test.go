package cli_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
)

// TestGraphApprovedTwice: a decision that is made again changes nothing: the turn still
// waits for the other one, and says so.
func TestGraphApprovedTwice(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": `apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: two, version: 1.0.0}
spec:
  agents:
    - {id: a, agentRef: writer}
    - {id: b, agentRef: writer, when: human}
    - {id: c, agentRef: writer, when: human}
  edges:
    - {from: a, to: b}
    - {from: a, to: c}
  entrypoint: a
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: writer}
spec: {role: You write.}
`})
	flags := []string{f["g.yaml"], "--session", "s1", "--db", filepath.Join(t.TempDir(), "s.db")}
	in := invocation{home: t.TempDir()}
	asked := regexp.MustCompile(`--approve (\w+)`)
	got := in.run(t, "run", f["g.yaml"], "hi", "--session", "s1", "--db", flags[4])
	require.Equal(t, cli.StatusApproval, got.status, got.err)
	calls := asked.FindAllStringSubmatch(got.err, -1)
	require.Len(t, calls, 2)
	for range 2 {
		got = in.run(t, append([]string{"resume", "--approve", calls[0][1]}, flags...)...)
		require.Equal(t, cli.StatusApproval, got.status, got.err)
		waits := asked.FindAllStringSubmatch(got.err, -1)
		require.Len(t, waits, 1)
		require.Equal(t, calls[1][1], waits[0][1])
	}
	got = in.run(t, append([]string{"resume", "--approve", calls[1][1]}, flags...)...)
	require.Equal(t, 0, got.status, got.err)
}
