package graphtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/must"
)

// TestCases runs all cases of this repository.
func TestCases(t *testing.T) {
	for _, file := range []string{"exec.yaml", "exec-more.yaml", "exec-arbor.yaml"} {
		cases := must.Get(LoadCaseFile("../testdata/" + file))
		for _, c := range cases {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				out, err := c.Run(t.Context())
				require.NoError(t, err)
				for _, d := range out.Differences {
					t.Error(d)
				}
				require.NotEmpty(t, out.Events)
			})
		}
	}
}

// TestSequentialEngine: what runs a group of parallel one after the other fails in
// words.
func TestSequentialEngine(t *testing.T) {
	cases := must.Get(LoadCaseFile("../testdata/exec.yaml"))
	out, err := cases[1].Run(t.Context(), WithBarrier(30*time.Millisecond), WithAgentOptions(agentgraph.WithConcurrency(1)))
	require.NoError(t, err)
	require.False(t, out.OK())
	require.Contains(t, out.Differences, "parallel: B ended before C had started")
	require.Contains(t, out.Differences[1], "B waited 30ms, and C did not start")
}
