package runner_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A turn that was decided on by looking at a log begins on that log or not at all, and so
// does the cancellation of one.
func TestAt(t *testing.T) {
	a := must.Get(llmagent.New("a", "Answer.", scripted.Always("a", scripted.Reply(scripted.Text("Yes.")))))
	store := sessiontest.Memory(t)
	ctx, key := context.Background(), session.ID("s")
	length := func() (n int64) {
		for _, e := range must.All(store.Load(ctx, key, 0)) {
			n = e.Seq
		}
		return n
	}
	for round := range 20 {
		at := length()
		var begun, refused atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			r := newRunner(t, a, store, runner.WithWait(session.LeaseTTL))
			wg.Go(func() {
				if err := drain(r.Run(ctx, key, llm.UserText("hi"), runner.At(at))); err == nil {
					begun.Add(1)
				} else if errors.Is(err, agent.ErrConflict) {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, begun.Load())
		require.EqualValues(t, 3, refused.Load())
		require.EqualValues(t, 5*(round+1), length(), "what was refused stored nothing")
	}
	r := newRunner(t, a, store)
	_, _, err := r.Begin(ctx, key, llm.UserText("and this?"), runner.At(length()))
	require.NoError(t, err)
	_, err = r.Cancel(ctx, key, runner.At(length()-1))
	require.ErrorIs(t, err, agent.ErrConflict)
	_, err = r.Cancel(ctx, key, nil)
	require.ErrorIs(t, err, agent.ErrBadInput)
	events := must.Get(r.Cancel(ctx, key, runner.At(length())))
	require.NotEmpty(t, events)
}

func TestPinOf(t *testing.T) {
	pin := must.Get(runner.PinOf(runner.At(7), runner.WithTurnID("t-1", 2), runner.WithMetadata(map[string]any{"k": "v"})))
	require.Equal(t, runner.Pin{Turn: "t-1", Attempt: 2, At: 7, Pinned: true}, pin)
	_, err := runner.PinOf(nil)
	require.ErrorIs(t, err, agent.ErrBadInput)
}

// A specialist with all below it is a tree of its own: nobody outside answers, what holds for the
// whole tree still does, and what leads outside is left out.
func TestUnder(t *testing.T) {
	ctx := context.Background()
	var sent *llm.Request
	made := func(name, answer string, opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New(name, "I am "+name+".", scripted.Func(name, func(req *llm.Request) scripted.Answer {
			sent = req
			if answer == "" {
				return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"refunds"}`))
			}
			return scripted.Reply(scripted.Text(answer))
		}), opts...))
	}
	refused := errors.New("not that")
	guard := agent.Guard{Name: "manners", In: func(_ context.Context, _ *agent.Invocation, in agent.Ingress) error {
		if in.Content.Text == "Damn." {
			return refused
		}
		return nil
	}}
	up := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
	refunds := made("refunds", "Refunded.", llmagent.WithTransferPolicy(up))
	billing := made("billing", "", llmagent.WithTransferPolicy(up), llmagent.WithGlobalInstruction("Bill."),
		llmagent.WithRoutes(agent.OnStop("sales")), llmagent.WithSubAgents(agent.Via(refunds, agent.OnError("sales"))))
	desk := made("desk", "Hello.", llmagent.WithGlobalInstruction("Be brief."), llmagent.WithSubAgents(agent.Via(billing, agent.GuardedBy(guard)), made("sales", "Buy!")))
	root := made("support", "Hello.", llmagent.WithGlobalInstruction("You work for us."), llmagent.WithSubAgents(desk))
	r := newRun(t, root, runner.WithBudgets(runner.Budgets{Agents: map[string]runner.Budget{"sales": {Tokens: 1}, "refunds": {Tokens: 1 << 20}}, MissingUsage: runner.EstimateMissingUsage}))

	u := must.Get(r.Under("desk/billing"))
	key := session.Key{App: "app:desk/billing", User: "ann", ID: "1"}
	events := run(t, u, key, "Refund me.")
	name, text := lastText(events)
	require.Equal(t, "refunds Refunded.", name+" "+text)
	require.Equal(t, "billing/refunds", events[len(events)-1].Path)
	require.Regexp(t, "^You work for us.\n\nBe brief.\n\nBill.\n\n", sent.System)
	require.Equal(t, 2, u.Tree().Len())
	require.Empty(t, u.Tree().Root().Routes())
	require.Nil(t, u.Tree().Node("refunds").OnError())
	require.Equal(t, "refunds", must.Get(u.Active(ctx, key)))
	_, err := say(u, session.Key{App: "app:desk/billing", User: "ann", ID: "2"}, "Damn.")
	require.ErrorIs(t, err, refused)

	same := must.Get(r.Under(""))
	require.Same(t, r, same)
	for _, path := range []string{"billing", "support/desk", "desk/", "/desk", "desk/refunds", "nobody"} {
		_, err := r.Under(path)
		require.ErrorIs(t, err, runner.ErrNoAgent, path)
		require.ErrorIs(t, err, agent.ErrBadInput, path)
	}
}
