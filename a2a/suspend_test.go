package a2a_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
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

// failing is a store whose writes fail from a moment on.
type failing struct {
	session.Store
	err  error
	down atomic.Bool
}

func (s *failing) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if s.down.Load() {
		return session.Lease{}, s.err
	}
	return s.Store.Write(ctx, key, w)
}

// storeFailures are the ways in which a process can lose its turn to another one.
var storeFailures = map[string]error{
	"the lease is lost":    session.LeaseLost(key),
	"the database is away": session.Unavailable(errors.New("the database is away")),
}

// A write of another node fails: the process that continues the turn follows the task.
func TestLostTurnLeavesTheTask(t *testing.T) {
	for name, failure := range storeFailures {
		t.Run(name, func(t *testing.T) {
			p := waitsForever(t)
			store := &failing{Store: sessiontest.Memory(t), err: failure}
			var f *fixture
			wait := scripted.Wait(func(context.Context) error {
				onceStored(f, 1, func() { store.down.Store(true) })
				return nil
			})
			first := must.Get(llmagent.New("first", "", scripted.Always("first", scripted.Reply(scripted.Text("go")))))
			other := must.Get(llmagent.New("other", "", scripted.Always("other", scripted.Reply(wait, scripted.Text("here")))))
			f = again(t, store, must.Get(agentgraph.NewBuilder("desk").Node("first", first).Node("ask", remotetest.Billing(t, p.URL)).
				Node("other", other).Edge("first", "ask").Edge("first", "other").Build()))
			_, _, err := f.Collect(f.Run(context.Background(), key, llm.UserText("refund")))
			require.ErrorIs(t, err, failure)
			require.Empty(t, p.made(cancels))
		})
	}
}

// The lease cannot be renewed: after its time another process may have the turn, even if the client then goes.
func TestTurnWithoutRenewalsLeavesTheTask(t *testing.T) {
	for name, failure := range storeFailures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := a2atest.New().Add(a2atest.Reply(a2atest.Block()))
				store := &failing{Store: sessiontest.Memory(t), err: failure}
				f := again(t, store, must.Get(a2a.Remote("billing", "", a2a.WithClient(peer))))
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				go onceStored(f, 1, func() { store.down.Store(true) })
				_, _, err := f.Collect(f.Run(ctx, key, llm.UserText("refund")))
				require.Error(t, err)
				require.Zero(t, cancellations(peer))
			})
		})
	}
}
