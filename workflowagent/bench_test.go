package workflowagent_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/race"
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

// measured are the workflows that costs are measured on, by name, and the children that they run.
func measured(t testing.TB) map[string]struct {
	root agent.Agent
	runs int
} {
	type shape = struct {
		root agent.Agent
		runs int
	}
	return map[string]shape{
		"sequence of 64": {sequential(t, "line", quick(t, 64)), 64},
		"64 branches":    {parallel(t, "wide", quick(t, 64)), 64},
		"64 rounds":      {loop(t, "again", quick(t, 1), workflowagent.WithLimit(64)), 64},
	}
}

func play(b testing.TB, r *runner.Runner, key session.Key) {
	for _, err := range r.Run(context.Background(), key, llm.UserText("go")) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStep measures what the run of a child costs besides its own work, in a session in memory.
func BenchmarkStep(b *testing.B) {
	for name, m := range measured(b) {
		b.Run(name, func(b *testing.B) {
			store := session.NewMemory()
			r := newRunner(b, m.root, store)
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				key := session.ID(fmt.Sprint("s", k))
				play(b, r, key)
				b.StopTimer()
				require.NoError(b, store.Delete(context.Background(), key))
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(m.runs), "ns/step")
		})
	}
}

// TestAllocationBudget holds the run of a child to a number of allocations.
func TestAllocationBudget(t *testing.T) {
	budgets := map[string]float64{"sequence of 64": 40, "64 branches": 44, "64 rounds": 40}
	for name, m := range measured(t) {
		t.Run(name, func(t *testing.T) {
			store := session.NewMemory()
			r := newRunner(t, m.root, store, runner.WithCache(1))
			i := 0
			allocs := race.Allocations(t, 50, func() {
				i++
				play(t, r, session.ID(fmt.Sprint("s", i)))
			}) / float64(m.runs)
			t.Logf("%.1f allocations a step", allocs)
			if allocs > budgets[name] {
				t.Errorf("%.1f allocations a step, the budget is %.0f", allocs, budgets[name])
			}
		})
	}
}
