package a2a_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// A turn whose process has gone is canceled by another one, which has never run anything:
// every task of it is canceled at its peer, wherever the nodes ran, and the log says so.
func TestGiveUpInsideOfAgents(t *testing.T) {
	for name, c := range insideOfAgents {
		t.Run(name, func(t *testing.T) {
			p := waitsForever(t)
			f := newRunner(t, c.root(t, remotetest.Billing(t, p.URL)))
			ctx, gone := context.WithCancelCause(context.Background())
			defer gone(nil)
			go onceStored(f, c.tasks, func() { gone(agent.ErrSuspended) })
			_, _, last := f.Collect(f.Run(ctx, key, llm.UserText("refund")))
			require.ErrorIs(t, last, agent.ErrSuspended)
			require.Empty(t, p.made(cancels))
			before := stored(f.Store)

			r := must.Get(runner.New(c.root(t, remotetest.Billing(t, p.URL)), f.Store))
			must.Get(r.Cancel(context.Background(), key))
			require.Len(t, p.made(cancels), c.tasks)
			var fold session.Fold
			ended := make(map[string]bool)
			canceled := 0
			for _, e := range stored(f.Store) {
				fold.Apply(e)
				require.False(t, ended[e.RunID], "an event after the end of its run")
				switch d := e.Data.(type) {
				case *event.HarnessEnd:
					ended[e.RunID] = true
				case *event.RemoteTask:
					if d.Status == "canceled" {
						canceled++
					}
				}
			}
			require.Equal(t, c.tasks, canceled)
			require.Greater(t, len(stored(f.Store)), len(before))
			require.Empty(t, fold.Remote)
			require.Empty(t, fold.Open())
			require.False(t, fold.Unfinished())

			must.Get(r.Cancel(context.Background(), key))
			require.Len(t, p.made(cancels), c.tasks, "once")
		})
	}
}

func stored(store session.Store) []*event.Event {
	return must.All(store.Load(context.Background(), key, 0))
}

// A task whose question was withdrawn was canceled then, and is not canceled again.
func TestGiveUpOnce(t *testing.T) {
	mock := a2atest.New().Add(a2atest.Reply(a2atest.InputRequired("Which one?")))
	far := must.Get(a2a.Remote("far", "", a2a.WithClient(mock)))
	inner := must.Get(agentgraph.NewBuilder("desk").Node("ask/peer", far).Build())
	f := newRunner(t, withTool(t, inner))
	_, _, err := f.Collect(f.Run(context.Background(), key, llm.UserText("refund")))
	require.NoError(t, err)
	_, _, failed := f.Collect(f.Run(context.Background(), key, llm.UserText("never mind")))
	require.Error(t, failed, "the model has no more to say")
	cut := f.crashed(t, event.TypeRemoteTask, len(remotetest.Find[*event.RemoteTask](stored(f.Store))))

	r := must.Get(runner.New(withTool(t, inner), cut))
	must.Get(r.Cancel(context.Background(), key))
	require.Equal(t, 1, cancellations(mock))
	var fold session.Fold
	for _, e := range stored(cut) {
		fold.Apply(e)
	}
	require.Empty(t, fold.Remote)
	require.False(t, fold.Unfinished())
}
