package workflowagent_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/workflowagent"
)

// quick makes agents whose own work costs next to nothing.
func quick(t testing.TB, n int) (all []agent.Agent) {
	done := &event.Event{Data: &event.Finish{Output: []byte(`{"ok":true}`)}}
	for i := range n {
		a := must.Get(agent.New(fmt.Sprint("w", i), "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) { yield(done, nil) }
		}))
		all = append(all, a)
	}
	return all
}

// TestAllocationBudget holds the run of a child to a number of allocations.
func TestAllocationBudget(t *testing.T) {
	const runs = 64
	for name, c := range map[string]struct {
		root   agent.Agent
		budget float64
	}{
		"sequence": {sequential(t, "line", quick(t, runs)), 40},
		"branches": {parallel(t, "wide", quick(t, runs)), 44},
		"rounds":   {loop(t, "again", quick(t, 1), workflowagent.WithLimit(runs)), 40},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, c.root, session.NewMemory(), runner.WithCache(1))
			i := 0
			allocs := race.Allocations(t, 50, func() {
				i++
				for _, err := range r.Run(context.Background(), session.ID(fmt.Sprint("s", i)), llm.UserText("go")) {
					require.NoError(t, err)
				}
			}) / runs
			t.Logf("%.1f allocations a step", allocs)
			require.LessOrEqual(t, allocs, c.budget)
		})
	}
}
