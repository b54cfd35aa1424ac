package runner_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
)

// A graph stops another graph in it, whose node is in the middle of a word: the consumer
// gets an event that says that the rest does not come.
func TestDeltasInsideOfAStoppedGraph(t *testing.T) {
	spoke := make(chan struct{})
	speaker := must.Get(agent.New("speaker", "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if !yield(&event.Event{ID: inv.NewID(), Partial: true, Attempt: 1, Data: &event.Text{Content: "Wel"}}, nil) {
				return
			}
			close(spoke)
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	}))
	breaker := must.Get(agent.New("breaker", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			<-spoke
			yield(nil, errors.New("broken"))
		}
	}))
	start := must.Get(agent.New("start", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Text{Content: "So."}}, nil)
		}
	}))
	inner, err := agentgraph.NewBuilder("inner").Node("speaks", speaker).Entrypoint("speaks").Build()
	require.NoError(t, err)
	outer, err := agentgraph.NewBuilder("outer").Node("start", start).Node("graph", inner).Node("breaks", breaker).
		Entrypoint("start").Edge("start", "graph").Edge("start", "breaks").Build()
	require.NoError(t, err)
	r := newRun(t, outer, runner.WithStreaming())

	shown, dropped := "", []string(nil)
	for e, err := range r.Run(t.Context(), s1, llm.UserText("Hello")) {
		if err != nil {
			require.ErrorContains(t, err, "broken")
			break
		}
		if e.Partial {
			shown = e.ID
		}
		if d, ok := e.Data.(*event.Discard); ok {
			dropped = append(dropped, d.IDs...)
		}
	}
	require.NotEmpty(t, shown)
	require.Equal(t, []string{shown}, dropped)
}

// The consumer breaks out of a turn at one of several deltas that nodes side by side want
// to be shown: its code does not run again, and somebody else can finish the turn.
func TestBreakAmongDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		speaker := must.Get(agent.New("speaker", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				id := inv.NewID()
				if yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: "Well."}}, nil) {
					yield(&event.Event{ID: id, Data: &event.Text{Content: "Well."}}, nil)
				}
			}
		}))
		b := agentgraph.NewBuilder("graph").Node("start", speaker).Entrypoint("start")
		for _, id := range []string{"a", "b", "c", "d"} {
			b.Node(id, speaker).Edge("start", id)
		}
		g, err := b.Build()
		require.NoError(t, err)
		r := newRun(t, g, runner.WithStreaming())

		shown := 0
		for e, err := range r.Run(t.Context(), s1, llm.UserText("Hello")) {
			require.NoError(t, err)
			if !e.Partial || e.Agent == "start" {
				continue
			}
			if shown++; shown == 2 {
				break
			}
			synctest.Wait() // until the others want to be shown something
		}
		require.Equal(t, 2, shown)
		events := finish(t, r.Resume(t.Context(), s1))
		require.Equal(t, event.FinishReasonStop, events[len(events)-1].Data.(*event.HarnessEnd).FinishReason)
	})
}
