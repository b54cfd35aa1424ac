package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTreeDrawsWorkflows: the agents that a workflow runs are drawn below it, in all formats.
func TestTreeDrawsWorkflows(t *testing.T) {
	const report = "testdata/report"
	out := invocation{}.run(t, "tree", report)
	require.Equal(t, 0, out.status, out.err)
	require.Equal(t, `report  Writes reports
    in turn:
    1. research
           side by side:
           • web  Looks there
           • archive
             └─ old
                    may also transfer to: archive
    2. polish
           in rounds:
           1. write
           2. critic
                  tools: exit_loop
`, out.out)
	require.Contains(t, invocation{}.run(t, "tree", report, "--format", "mermaid").out, "in turn#58; research (side by side#58; web, archive), polish (in rounds#58; write, critic)")
	require.Contains(t, invocation{}.run(t, "tree", report, "--format", "json").out, `"flow":"parallel"`)
	require.Equal(t, "ok: 1 agent, 3 workflows with 6 agents\n", invocation{}.run(t, "lint", report).out)

	out = invocation{}.run(t, "run", report, "How was the weather?")
	require.Equal(t, 0, out.status, out.err)
}
