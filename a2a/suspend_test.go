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
	"github.com/agentarbor/arbor/runner"
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

// hidesWhy ends what a tool does when the turn ends, and for no reason: so it is for a moment
// where something around an agent notices the end of the turn first.
type hidesWhy struct{ agent.Passthrough }

func (hidesWhy) ToolCall(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
	inside, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return next(inside, c.Input)
}

// The turn alone decides whether a task is left at work, not what ends the agent.
func TestSuspendedTurnEndsAnAgentForNoReason(t *testing.T) {
	p := waitsForever(t)
	f := newRunner(t, withTool(t, newRemote(t, p.URL)), runner.WithInterceptors(hidesWhy{}))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go onceStored(f, 1, func() { cancel(agent.ErrSuspended) })
	_, _, last := f.collect(f.Run(ctx, key, llm.UserText("refund")))
	require.ErrorIs(t, last, agent.ErrSuspended)
	require.Empty(t, p.made(cancels))
}
