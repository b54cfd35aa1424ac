package analytics_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/analytics"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// routed returns a function that runs one turn of a new session, in which a router chooses an agent
// with a model.
func routed(t testing.TB, interceptors ...agent.Interceptor) func() {
	billing := must.Get(llmagent.New("billing", "You handle refunds.", scripted.Always("m", scripted.Reply(scripted.Text("I refund one charge.")))))
	root := newRouter(t, "front", byWords, agent.WithSubAgents(billing))
	var r *runner.Runner
	n := 0
	return func() {
		if n%100 == 0 { // what earlier sessions left in memory is not this one's cost
			r = must.Get(runner.New(root, session.NewMemory(), runner.WithCache(1), runner.WithInterceptors(interceptors...)))
		}
		n++
		for _, err := range r.Run(context.Background(), session.ID(fmt.Sprint("s", n)), llm.UserText("billing")) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

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
