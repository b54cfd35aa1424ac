package a2aserver

import (
	"context"
	"iter"
	"net/http/httptest"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

// What is begun at another door is a task here, what is begun here can be followed and canceled
// there, and a server that is closed leaves the turns that it shares alone.
func TestServerOnSharedTurns(t *testing.T) {
	ctx := context.Background()
	b, slow := newBlocked(t)
	store := must.Get(tail.New(sessiontest.Memory(t)))
	run := must.Get(runner.New(slow, store, runner.WithStreaming()))
	turns := must.Get(live.New(run, store))
	defer func() { require.NoError(t, turns.Close(ctx)) }()
	_, tenant := newBlocked(t)
	s := must.Get(NewOn(turns, WithTenant("other", tenant)))
	h := s.RequestHandler()

	turn := must.Get(turns.Begin(ctx, session.ID("c1"), llm.UserText("think")))
	<-b.begun
	id := taskID(turn.First.Seq, turn.First.TurnID, "c1")
	heard, ended := make(chan struct{}), make(chan error)
	go func() {
		first := true
		for _, err := range h.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
			if err != nil {
				ended <- err
				return
			}
			if first {
				first = false
				close(heard)
			}
		}
		ended <- nil
	}()
	<-heard
	task := sendAtOnce(t, h, ctx, userMessage("m1", "think"))
	<-b.begun
	must.Get(turns.Cancel(ctx, session.ID(task.ContextID)))
	got := must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID}))
	require.Equal(t, sdk.TaskStateCanceled, got.Status.State)

	require.NoError(t, s.Close(ctx))
	require.NoError(t, <-ended, "streams end with the server")
	status := must.Get(turns.Look(ctx, session.ID("c1")))
	require.Equal(t, live.Running, status.State)
	close(b.free)
	require.NoError(t, turn.Wait(ctx))

	require.Error(t, must.Err(NewOn(nil)))
}

// A card describes the tree that the next turn gets, also for who has seen the other one.
func TestCardFollowsTheTree(t *testing.T) {
	ctx := context.Background()
	store := must.Get(tail.New(sessiontest.Memory(t)))
	named := func(name string) *runner.Runner {
		a := must.Get(agent.New(name, "About "+name, func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil }))
		return must.Get(runner.New(a, store))
	}
	turns := must.Get(live.New(named("old"), store))
	defer func() { require.NoError(t, turns.Close(ctx)) }()
	for _, opts := range [][]Option{nil, {WithURL("https://agents.example.com")}} {
		require.NoError(t, turns.Swap(named("old"), nil))
		s := must.Get(NewOn(turns, opts...))
		get := func(tag string) (int, string, string) {
			r := httptest.NewRequest("GET", "http://localhost/.well-known/agent-card.json", nil)
			r.Header.Set("If-None-Match", tag)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Code, w.Header().Get("ETag"), w.Body.String()
		}
		_, old, body := get("")
		require.Contains(t, body, `"name":"old"`)
		require.NoError(t, turns.Swap(named("new"), nil))
		status, tag, body := get(old)
		require.Equal(t, 200, status)
		require.Contains(t, body, `"name":"new"`)
		require.Contains(t, body, `"description":"About new"`)
		status, _, _ = get(tag)
		require.Equal(t, 304, status)
		require.NoError(t, s.Close(ctx))
	}
}
