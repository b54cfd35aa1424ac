package a2a_test

import (
	"context"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// A turn that is suspended leaves its task at work, and finds it again when it is
// resumed; nothing is sent twice.
func TestSuspendedTurnLeavesItsTask(t *testing.T) {
	free := make(chan struct{})
	srv := newServer(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
		<-free
		yield(sdk.NewArtifactEvent(ec, sdk.NewTextPart("Here it is.")), nil)
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, nil), nil)
	})
	f := newRunner(t, newRemote(t, srv.cardURL()))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	for e, err := range f.Run(ctx, key, llm.UserText("hi")) {
		if err != nil {
			require.ErrorIs(t, err, agent.ErrSuspended)
			break
		}
		if e.Type() == event.TypeRemoteTask {
			cancel(agent.ErrSuspended)
		}
	}
	srv.mu.Lock()
	require.Empty(t, srv.canceled)
	srv.mu.Unlock()
	close(free)
	var events []*event.Event
	for e, err := range f.Resume(context.Background(), key) {
		require.NoError(t, err)
		events = append(events, e)
	}
	require.Equal(t, []string{"Here it is."}, said(events))
	require.Len(t, srv.messages(), 1)
}
