package agentgraph_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestGraphBehindTool: the output of a graph is the result of the tool that runs
// it.
func TestGraphBehindTool(t *testing.T) {
	s := &scene{}
	root := s.hasTool("root", "Done.", s.agentTool(s.inner("graph")))
	require.NoError(t, s.err)
	r := must.Get(runner.New(root, sessiontest.Memory(t)))
	output := ""
	for e, err := range r.Run(context.Background(), session.ID("s"), llm.UserText("go")) {
		require.NoError(t, err)
		if d, ok := e.Data.(*event.ToolResult); ok && e.Scope == "" {
			require.False(t, d.IsError)
			output = event.OutputText(d.Output)
		}
	}
	require.JSONEq(t, `{"left":{"side":"left"},"right":"right"}`, output)
}
