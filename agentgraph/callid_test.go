package agentgraph_test

import (
	"context"
	"encoding/json"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// TestEqualCallIDs: endpoints that count give calls of agents that run side by side the
// same id. Each call gets its own result, also one that the runner answers in the
// write that has the call.
func TestEqualCallIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := sideBySide(t, 6, func(i int) agent.Agent {
			a, err := agent.New(id(i), "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
				return func(yield func(*event.Event, error) bool) {
					yield(&event.Event{ID: "call_1", Data: &event.ToolCall{Name: "own", Input: json.RawMessage(`{}`)}, More: true}, nil)
				}
			})
			require.NoError(t, err)
			return a
		})
		_, events, err := try(t, a, "go")
		require.NoError(t, err)
		calls := make(map[string]string)
		for _, e := range events {
			switch e.Data.(type) {
			case *event.ToolCall:
				require.NotContains(t, calls, e.ID)
				calls[e.ID] = e.RunID
			case *event.ToolResult:
				require.Equal(t, calls[e.ID], e.RunID, e.ID)
			}
		}
		require.Len(t, calls, 6)
		requireClosed(t, events, "limited")
	})
}
