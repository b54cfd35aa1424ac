package agentgraph_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestAdvance: an engine that makes turns durable takes a graph as one step, and can
// take it again if it does not know how the first try ended.
func TestAdvance(t *testing.T) {
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole, _, called := wholeOf(t, tree)
				s := &scene{}
				root, graph := tree(s)
				require.NoError(t, s.err)
				store := sessiontest.Memory(t)
				ctx := context.Background()
				r := must.Get(runner.New(root, store))
				_, _, err := r.Begin(ctx, key, llm.UserText("go"))
				require.NoError(t, err)
				for done, tries := false, 0; !done; tries++ {
					require.Less(t, tries, 10)
					again, err := runner.New(root, store) // every step in another process
					require.NoError(t, err)
					_, done, err = over(again.Advance(ctx, key, runner.Step{Attempt: 1}))
					require.NoError(t, err)
				}
				require.Equal(t, inJSON(whole), inJSON(resultsOf(t, graph, r)[0]))
				require.Equal(t, called, s.take())
				_, done, err := over(r.Advance(ctx, key, runner.Step{Attempt: 2}))
				require.NoError(t, err)
				require.True(t, done)
				require.Empty(t, s.take(), "it is over")
			})
		})
	}
}

// over tells of a step whether its turn is over.
func over(events []*event.Event, s runner.TurnState, err error) ([]*event.Event, bool, error) {
	return events, s.Over, err
}
