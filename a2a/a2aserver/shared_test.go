package a2aserver

import (
	"context"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

// What is begun at another door is a task here, what is begun here can be followed and canceled
// there, and a server that is closed leaves the turns that it shares alone.
func TestServerOnSharedTurns(t *testing.T) {
	ctx := context.Background()
	b, slow := newBlocked(t)
	store, err := tail.New(sessiontest.Memory(t))
	require.NoError(t, err)
	run, err := runner.New(slow, store, runner.WithStreaming())
	require.NoError(t, err)
	turns, err := live.New(run, store)
	require.NoError(t, err)
	defer func() { require.NoError(t, turns.Close(ctx)) }()
	_, tenant := newBlocked(t)
	s, err := NewOn(turns, WithTenant("other", tenant))
	require.NoError(t, err)
	h := s.RequestHandler()

	turn, err := turns.Begin(ctx, session.ID("c1"), llm.UserText("think"))
	require.NoError(t, err)
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
	_, err = turns.Cancel(ctx, session.ID(task.ContextID))
	require.NoError(t, err)
	got, err := h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID})
	require.NoError(t, err)
	require.Equal(t, sdk.TaskStateCanceled, got.Status.State)

	require.NoError(t, s.Close(ctx))
	require.NoError(t, <-ended, "streams end with the server")
	status, err := turns.Look(ctx, session.ID("c1"))
	require.NoError(t, err)
	require.Equal(t, live.Running, status.State)
	close(b.free)
	require.NoError(t, turn.Wait(ctx))

	_, err = NewOn(nil)
	require.Error(t, err)
}
