package agentgraph_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// The tests in this file run in synctest bubbles: an agent that waits for something
// that never comes ends the test at once, because all goroutines are blocked then.

// meet lets so many wait for each other.
func meet(n int) func(ctx context.Context) error {
	all := make(chan struct{})
	var here atomic.Int64
	return func(ctx context.Context) error {
		if here.Add(1) == int64(n) {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TestReadyTogether: nodes that are ready together all run at once, however many: they wait for each other.
func TestReadyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := meet(200)
		b := agentgraph.NewBuilder("wide").Node("first", gives(t, 1)).Node("last", gives(t, 2))
		for i := range 200 {
			meets := does(t, "meets", func(ctx context.Context, in any) (any, error) { return in, wait(ctx) })
			b.Node(id(i), meets).Edge("first", id(i)).Edge(id(i), "last")
		}
		result, _, err := try(t, must.Get(b.Build()), "go")
		require.NoError(t, err)
		require.Equal(t, agentgraph.Completed, result.Status)
		require.Len(t, result.Order, 202)
	})
}

// TestStartedBeforeResults: of nodes that are ready together all have begun before the
// result of any is looked at, by who comes next or by the consumer.
func TestStartedBeforeResults(t *testing.T) {
	for _, settle := range []time.Duration{0, workflow.Settle} {
		synctest.Test(t, func(t *testing.T) {
			b := agentgraph.NewBuilder("ready").Node("first", gives(t, 1))
			for i := range 20 {
				b.Node(id(i), gives(t, i)).Edge("first", id(i))
			}
			a := must.Get(b.Build(agentgraph.WithSettle(settle)))
			_, events, err := try(t, a, "go")
			require.NoError(t, err)
			starts := 0
			for _, e := range events {
				switch e.Data.(type) {
				case *event.HarnessStart:
					starts++
				case *event.HarnessEnd:
					require.True(t, e.Agent == "first" || starts == 22, "%s ended when %d of 22 had begun", e.Agent, starts)
				}
			}
		})
	}
}

// TestSpeaksAlone: what a node says is stored, and delivered, while others beside it go
// on working.
func TestSpeaksAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		received := make(chan struct{})
		quiet := does(t, "quiet", func(ctx context.Context, _ any) (any, error) {
			select {
			case <-received:
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		speaks, err := agent.New("speaks", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				if yield(&event.Event{Data: &event.Text{Content: "I speak."}}, nil) { // and it was stored
					close(received)
				}
			}
		})
		require.NoError(t, err)
		a := must.Get(agentgraph.NewBuilder("speaks").Node("a", gives(t, 1)).Node("b", quiet).Node("c", speaks).Edge("a", "b").Edge("a", "c").Build())
		result, _, err := try(t, a, "go")
		require.NoError(t, err)
		require.Equal(t, agentgraph.Completed, result.Status)
	})
}
