package eval_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
)

// desk is a coordinator with specialists, whose models answer as the script says.
func desk(t testing.TB, script string, opts ...llmagent.Option) agent.Agent {
	s, err := scripted.Parse([]byte(script))
	require.NoError(t, err)
	return deskOf(t, s.Model, opts...)
}

func deskOf(t testing.TB, model func(name string) llm.Model, opts ...llmagent.Option) agent.Agent {
	specialist := func(name string) agent.Agent {
		a, err := llmagent.New(name, "You answer.", model(name), append(opts, llmagent.WithDescription(name+" questions"),
			llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}))...)
		require.NoError(t, err)
		return a
	}
	root, err := llmagent.New("support", "You route.", model("support"), llmagent.WithSubAgents(specialist("billing"), specialist("tech")))
	require.NoError(t, err)
	return root
}

func load(t testing.TB, text string) []eval.Case {
	cases, err := eval.Load([]byte(text), "cases.yaml")
	require.NoError(t, err)
	return cases
}

func TestOneCase(t *testing.T) {
	root := desk(t, `
support: call transfer_to_agent {"agent_name": "billing"} usage=100/5/20
billing: "I refunded the second charge." usage=50/7
`)
	cases := load(t, "cases:\n  - say: I was charged twice\n    path: support > billing\n    says: [refund, /second  charge|x/]\n")
	require.NoError(t, eval.Check(cases, root))
	report, err := eval.Run(context.Background(), cases, []eval.Subject{{Name: "s", Root: root}}, eval.WithPrices(llm.Prices{"support": {Input: 1}, "billing": {Input: 2}}))
	require.NoError(t, err)
	out := report.Subjects[0].Outcomes[0]
	require.Equal(t, []eval.Difference{{Kind: eval.KindSays, Message: `"/second charge|x/" is not in "I refunded the second charge."`}}, out.Turns[0].Differences)
	require.Equal(t, []string{"support", "billing"}, out.Turns[0].Path)
	s := report.Subjects[0].Summary()
	require.Equal(t, 2, s.ModelCalls)
	require.InDelta(t, (100+2*50)/1e6, *s.Cost, 1e-12)
}
