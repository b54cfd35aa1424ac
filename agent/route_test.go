package agent_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
)

func quiet(context.Context, *agent.Invocation) iter.Seq2[*agent.Event, error] {
	return func(func(*agent.Event, error) bool) {}
}

func made(t *testing.T, name string, opts ...agent.Option) agent.Agent {
	a, err := agent.New(name, "", quiet, opts...)
	require.NoError(t, err)
	return a
}

func TestRoutesAreChecked(t *testing.T) {
	always := func(context.Context, *agent.Invocation, string) (bool, error) { return true, nil }
	for name, c := range map[string]struct {
		root agent.Agent
		want []string
	}{
		"none": {made(t, "a"), nil},
		"a chain": {made(t, "a", agent.WithSubAgents(made(t, "b", agent.WithRoutes(agent.OnStop("c"))), made(t, "c")),
			agent.WithRoutes(agent.OnStop("b"))), nil},
		"two ways to one": {made(t, "a", agent.WithSubAgents(agent.Via(made(t, "b", agent.WithRoutes(agent.OnStop("c"))), agent.When(always)),
			agent.Via(made(t, "c"), agent.When(always)))), nil},
		"a circle": {made(t, "a", agent.WithSubAgents(made(t, "b", agent.WithRoutes(agent.OnStop("a")))), agent.WithRoutes(agent.OnStop("b"))),
			[]string{"routes lead in a circle: a → b → a"}},
		"a circle with a condition": {made(t, "a", agent.WithSubAgents(agent.Via(made(t, "b", agent.WithRoutes(agent.OnStop("a", always))), agent.When(always)))),
			[]string{"routes lead in a circle: a → b → a"}},
		"a circle beside the root": {made(t, "a", agent.WithSubAgents(made(t, "b", agent.WithRoutes(agent.OnStop("c"))), made(t, "c", agent.WithRoutes(agent.OnStop("b"))))),
			[]string{"routes lead in a circle: b → c → b"}},
		"nowhere": {made(t, "a", agent.WithRoutes(agent.OnStop("b"), agent.OnStop("a"))),
			[]string{`the route to "b" leads nowhere`, `the route to "a" leads nowhere`}},
		"too far": {made(t, "a", agent.WithSubAgents(made(t, "b", agent.WithSubAgents(made(t, "c")))), agent.WithRoutes(agent.OnStop("c"))),
			[]string{`the route to "c" leads nowhere`}},
		"an input that nobody gives": {made(t, "a", agent.WithSubAgents(agent.Via(made(t, "b"), agent.When(always), agent.WithTransferInput[struct{ N int }]()))),
			[]string{"the route to b cannot carry the input"}},
		"an input without schema": {made(t, "a", agent.WithSubAgents(agent.Via(made(t, "b"), agent.WithTransferInput[int]()), agent.Via(made(t, "c"), agent.WithTransferInput[struct{ F func() }]()))),
			[]string{"the input type int is no struct", "no JSON schema can be made of"}},
		"a guard without a name": {made(t, "a", agent.WithGuards(agent.Guard{})), []string{`a guard of the agent "a" has no name`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := agent.NewTree(c.root)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			var te *agent.TreeError
			require.ErrorAs(t, err, &te)
			require.Len(t, te.Problems, len(c.want), "%v", err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}
