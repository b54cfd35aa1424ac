package agentgraph_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
)

// TestAbandonedTool: an agent behind a tool that ignores the end of its time delays
// nobody. What it says much later is dropped, while its graph still runs and after it.
// synctest checks that no goroutine waits for ever then.
func TestAbandonedTool(t *testing.T) {
	for name, rest := range map[string]time.Duration{"the graph is over": time.Minute, "the graph runs": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{}
				late := yields(t, func(_ context.Context, _ *agent.Invocation, yield func(*event.Event, error) bool) {
					yield(&event.Event{Data: &event.Text{Content: "I begin."}}, nil)
					time.Sleep(time.Hour)
					yield(&event.Event{Data: &event.Text{Content: "So late."}}, nil)
				})
				tool := must.Get(agenttool.New(late, agenttool.WithTimeout(time.Second)))
				slow := does(t, "slow", func(context.Context, any) (any, error) {
					time.Sleep(rest)
					return "slow", nil
				})
				b := agentgraph.NewBuilder("abandons").Node("a", gives(t, 1)).Node("asks", s.hasTool("asks", "No answer.", tool)).Node("slow", slow).
					Edge("a", "asks").Edge("a", "slow")
				require.NoError(t, s.err)
				a := must.Get(b.Build())
				result, events, err := try(t, a, "go")
				time.Sleep(5 * time.Hour)
				require.NoError(t, err)
				require.Equal(t, agentgraph.Completed, result.Status)
				require.Equal(t, `"No answer."`, string(result.Outputs["asks"]))
				for _, e := range events {
					if text, ok := e.Data.(*event.Text); ok {
						require.NotEqual(t, "So late.", text.Content)
					}
				}
				requireClosed(t, events, name) // the run of the late agent too, before the call's result
			})
		})
	}
}
