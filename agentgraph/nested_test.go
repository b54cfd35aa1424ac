package agentgraph_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
)

// TestEndsInsideGraphs: the end of a node is in the log also if the node's graph is
// itself a node, and nothing begins after it.
func TestEndsInsideGraphs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{}
		a := s.steady()
		require.NoError(t, s.err)
		_, events, err := try(t, a, "go")
		require.NoError(t, err)
		requireClosed(t, events, "a graph as a node")
	})
}

// requireClosed: every run that begins in a log ends in it, once, and every call has a
// result.
func requireClosed(t testing.TB, events []*event.Event, where string) {
	t.Helper()
	requireEnds(t, events, where)
	open := make(map[string]string)
	for _, e := range events {
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			open[e.RunID] = "the run of " + e.Agent
		case *event.HarnessEnd:
			delete(open, e.RunID)
		case *event.ToolCall:
			open[e.ID] = "the call of " + d.Name
		case *event.ToolResult:
			delete(open, e.ID)
		}
	}
	if len(open) > 0 {
		require.Empty(t, open, "%s\n%s", where, lines(events))
	}
}
