package analytics_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/analytics"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/race"
)

// The seven events of a turn that a router has decided cost few allocations beside the turn's own.
// What the sink's goroutine does is not counted: it waits. The race detector has allocations of its own.
func TestAllocationBudget(t *testing.T) {
	without := race.Allocations(t, 200, routed(t, agent.Passthrough{}))
	gate := make(chan struct{})
	i := must.Get(analytics.New(analytics.SinkFunc(func(context.Context, analytics.Event) error {
		<-gate
		return nil
	})))
	with := race.Allocations(t, 200, routed(t, i))
	close(gate)
	require.NoError(t, i.Close(t.Context()))
	require.Equal(t, analytics.Stats{Recorded: 201 * 7}, i.Stats())
	t.Logf("%.0f allocations without, %.0f with", without, with)
	require.LessOrEqual(t, with-without, 22.0)
}
