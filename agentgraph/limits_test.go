package agentgraph_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

// TestModelCallsSideBySide: the limit of model calls holds for agents that run side by
// side, also if one asks when the answer of another is there and not stored yet.
func TestModelCallsSideBySide(t *testing.T) {
	for _, apart := range []time.Duration{0, 100 * time.Microsecond, time.Second} {
		t.Run(apart.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{}
				b := agentgraph.NewBuilder("limited").Node("a", gives(t, 1)).OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Continue})
				for i := range 8 {
					b.Node(id(i), s.model(id(i), func(llm.Message) items { return items{scripted.Text("Yes.")} },
						llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) {
							time.Sleep(time.Duration(i) * apart)
							return "Say yes.", nil
						}))).Edge("a", id(i))
				}
				require.NoError(t, s.err)
				a := must.Get(b.Build())
				result, events, err := try(t, a, "go", runner.WithLimits(runner.Limits{ModelCalls: 3}))
				require.NoError(t, err)
				require.Equal(t, agentgraph.CompletedWithErrors, result.Status)
				require.Len(t, result.Failed, 5)
				require.Len(t, s.take(), 3, "models that were asked")
				requireClosed(t, events, "limited")
			})
		})
	}
}
