package agentgraph_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
)

// The tests in this file run in synctest bubbles: an agent that waits for something
// that never comes ends the test at once, because all goroutines are blocked then.

// crowd counts how many agents run at once.
type crowd struct {
	mu        sync.Mutex
	now, most int
	began     []string
}

// member makes an agent that waits while it runs.
func (c *crowd) member(t testing.TB, name string, wait func(ctx context.Context) error) agent.Agent {
	return does(t, "member", func(ctx context.Context, in any) (any, error) {
		c.mu.Lock()
		c.began = append(c.began, name)
		c.now++
		c.most = max(c.most, c.now)
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.now--
		}()
		return name, wait(ctx)
	})
}

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

// wide makes a graph of a first node, n beside each other and a last one.
func (c *crowd) wide(t testing.TB, n int, wait func(context.Context) error, opts ...agentgraph.AgentOption) *agentgraph.Agent {
	b := agentgraph.NewBuilder("wide").Node("first", gives(t, 1)).Node("last", gives(t, 2))
	for i := range n {
		b.Node(id(i), c.member(t, id(i), wait)).Edge("first", id(i)).Edge(id(i), "last")
	}
	return must.Get(b.Build(opts...))
}

// TestReadyTogether: nodes that are ready together all run at once, however many.
func TestReadyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{}
		result, _, err := try(t, c.wide(t, 200, meet(200)), "go")
		require.NoError(t, err)
		require.Equal(t, agentgraph.Completed, result.Status)
		require.Equal(t, 200, c.most)
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

// TestNoWaves: a node begins when its own edges are resolved, whoever still runs beside
// it: b waits until e, two steps further, has begun.
func TestNoWaves(t *testing.T) {
	for _, most := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			begun := make(chan struct{})
			slow := does(t, "slow", func(ctx context.Context, _ any) (any, error) {
				select {
				case <-begun:
					return "slow", nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})
			last := does(t, "last", func(context.Context, any) (any, error) {
				close(begun)
				return "last", nil
			})
			a := must.Get(agentgraph.NewBuilder("waves").Node("a", gives(t, 1)).Node("b", slow).Node("c", gives(t, 2)).Node("e", last).
				Edge("a", "b").Edge("a", "c").Edge("c", "e").Build(agentgraph.WithConcurrency(most)))
			result, _, err := try(t, a, "go")
			require.NoError(t, err)
			require.Equal(t, []string{"a", "b", "c", "e"}, result.Order)
		})
	}
}

// TestConcurrency: never more than so many run at once, and as many as may do: they wait
// for each other in groups of just this size.
func TestConcurrency(t *testing.T) {
	for _, most := range []int{1, 2, 3, 7, 60} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &crowd{}
				gate := &gate{size: most}
				result, _, err := try(t, c.wide(t, 4*most, gate.wait, agentgraph.WithConcurrency(most)), "go")
				require.NoError(t, err)
				require.Equal(t, agentgraph.Completed, result.Status)
				require.Equal(t, most, c.most)
			})
		})
	}
	t.Run("with failures", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{}
			var calls atomic.Int64
			wait := func(context.Context) error {
				time.Sleep(time.Duration(calls.Load()%7) * time.Millisecond)
				if calls.Add(1)%3 != 0 {
					return errors.New("not yet")
				}
				return nil
			}
			b := agentgraph.NewBuilder("flaky").Node("first", gives(t, 1))
			for i := range 30 {
				b.Node(id(i), c.member(t, id(i), wait)).Edge("first", id(i))
			}
			a := must.Get(b.OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Retry, MaxRetries: 100}).Build(agentgraph.WithConcurrency(4)))
			result, _, err := try(t, a, "go")
			require.NoError(t, err)
			require.Equal(t, agentgraph.Completed, result.Status)
			require.Equal(t, 4, c.most)
			require.Equal(t, int64(90), calls.Load())
		})
	})
}

// gate opens whenever so many wait at it.
type gate struct {
	mu      sync.Mutex
	size    int
	waiting []chan struct{}
}

func (g *gate) wait(ctx context.Context) error {
	open := make(chan struct{})
	g.mu.Lock()
	g.waiting = append(g.waiting, open)
	if len(g.waiting) == g.size {
		for _, w := range g.waiting {
			close(w)
		}
		g.waiting = nil
	}
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
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
