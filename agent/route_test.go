package agent_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

func quiet(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(func(*event.Event, error) bool) {}
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

// TestNilsOnEdges: an option that is nil changes nothing, and a condition that is
// nil holds.
func TestNilsOnEdges(t *testing.T) {
	yes := func(context.Context, *agent.Invocation, string) (bool, error) { return true, nil }
	no := func(context.Context, *agent.Invocation, string) (bool, error) { return false, nil }
	for name, c := range map[string]struct {
		root agent.Agent
		want string // the way on, "" if there is none
	}{
		"no option":                      {made(t, "a", agent.WithSubAgents(agent.Via(made(t, "b"), nil))), ""},
		"an edge's condition":            {made(t, "a", agent.WithSubAgents(agent.Via(made(t, "b"), nil, agent.When(nil)))), "b"},
		"a route's condition":            {made(t, "a", agent.WithSubAgents(made(t, "b")), agent.WithRoutes(agent.OnStop("b", nil))), "b"},
		"two conditions":                 {made(t, "a", agent.WithSubAgents(made(t, "b")), agent.WithRoutes(agent.OnStop("b", nil, nil))), "b"},
		"nil beside one":                 {made(t, "a", agent.WithSubAgents(made(t, "b")), agent.WithRoutes(agent.OnStop("b", nil, yes))), "b"},
		"nil beside one that is not met": {made(t, "a", agent.WithSubAgents(made(t, "b")), agent.WithRoutes(agent.OnStop("b", no, nil))), ""},
		"nil among three":                {made(t, "a", agent.WithSubAgents(made(t, "b")), agent.WithRoutes(agent.OnStop("b", yes, nil, no))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := agent.NewTree(c.root)
			require.NoError(t, err)
			to, err := tree.Root().Route(context.Background(), nil, "done")
			require.NoError(t, err)
			if c.want == "" {
				require.Nil(t, to)
				return
			}
			require.NotNil(t, to)
			require.Equal(t, c.want, to.Agent.Name())
		})
	}
	conditions := []agent.Condition{nil, yes}
	agent.OnStop("b", conditions...)
	require.Nil(t, conditions[0], "the caller's slice is left alone")

	_, err := agent.New("a", "", quiet, nil)
	require.Error(t, err)
	_, err = agent.New("a", "", quiet, agent.WithSubAgents(agent.Via(nil)))
	require.ErrorContains(t, err, "a sub-agent is nil")
}

// TestTheRootsEdge: an edge to the root is kept, with its guards after the root's
// own.
func TestTheRootsEdge(t *testing.T) {
	own, edge := agent.Guard{Name: "own"}, agent.Guard{Name: "edge"}
	root := made(t, "a", agent.WithGuards(own))
	tree, err := agent.NewTree(agent.Via(root, agent.GuardedBy(edge), agent.HideReason()))
	require.NoError(t, err)
	require.Same(t, root, tree.Root().Agent)
	require.True(t, tree.Root().Edge.HideReason)
	var names []string
	for _, g := range tree.Root().Guards() {
		names = append(names, g.Name)
	}
	require.Equal(t, []string{"own", "edge"}, names)

	_, err = agent.NewTree(agent.Via(root, agent.GuardedBy(agent.Guard{})))
	require.ErrorContains(t, err, "has no name", "it is checked like any other")
}

func TestNoRoot(t *testing.T) {
	for _, root := range []agent.Agent{nil, agent.Via(nil), (*cyclic)(nil)} {
		_, err := agent.NewTree(root)
		require.ErrorContains(t, err, "the root agent is nil")
	}
}
