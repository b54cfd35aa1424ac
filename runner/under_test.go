package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

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

	u, err := r.Under("desk/billing")
	require.NoError(t, err)
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
	_, err = say(u, session.Key{App: "app:desk/billing", User: "ann", ID: "2"}, "Damn.")
	require.ErrorIs(t, err, refused)

	same, err := r.Under("")
	require.NoError(t, err)
	require.Same(t, r, same)
	for _, path := range []string{"billing", "support/desk", "desk/", "/desk", "desk/refunds", "nobody"} {
		_, err := r.Under(path)
		require.ErrorIs(t, err, runner.ErrNoAgent, path)
		require.ErrorIs(t, err, agent.ErrBadInput, path)
	}
}
