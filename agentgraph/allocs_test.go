package agentgraph_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// TestAllocationBudget holds the cost of a node to its budget, the events in the
// session's log included. It is the same in large graphs as in small ones.
func TestAllocationBudget(t *testing.T) {
	for shape, budget := range map[string]float64{"chain": 36, "wide": 40, "random": 44} {
		perNode := func(n int) float64 {
			r := must.Get(runner.New(shaped(t, shape, n), session.NewMemory()))
			k := 0
			return race.Allocations(t, 5, func() {
				k++
				for _, err := range r.Run(context.Background(), session.ID(fmt.Sprint(k)), llm.UserText("go")) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}) / float64(n)
		}
		small, large := perNode(500), perNode(2_000)
		t.Logf("%s: %.1f and %.1f allocations a node, budget %.0f", shape, small, large, budget)
		require.LessOrEqual(t, small, budget, shape)
		require.LessOrEqual(t, large, budget, shape)
	}
}
