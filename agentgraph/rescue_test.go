package agentgraph_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/must"
)

// TestFallbackAfterSiblings: the fallback is asked although others had to be stopped
// before.
func TestFallbackAfterSiblings(t *testing.T) {
	slow := does(t, "slow", func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	a := must.Get(agentgraph.NewBuilder("rescue").Node("a", gives(t, 1)).Node("b", fails(t, 9, "boom", nil)).Node("c", slow).Node("z", gives(t, "saved")).
		Edge("a", "b").Edge("a", "c").OnError(agentgraph.ErrorHandling{Fallback: "z"}).Build())
	result, _, err := try(t, a, "go")
	require.NoError(t, err)
	require.Equal(t, agentgraph.Recovered, result.Status)
	require.Equal(t, []string{"c"}, result.Cancelled)
	require.Equal(t, `"saved"`, string(result.Terminal["z"]))
}
