package a2a_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/internal/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
)

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
	f := newRunner(t, withTool(t, remotetest.Billing(t, p.URL)), runner.WithInterceptors(hidesWhy{}))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go onceStored(f, 1, func() { cancel(agent.ErrSuspended) })
	_, _, last := f.Collect(f.Run(ctx, key, llm.UserText("refund")))
	require.ErrorIs(t, last, agent.ErrSuspended)
	require.Empty(t, p.made(cancels))
}
