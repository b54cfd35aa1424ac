package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
)

// finder is a type of one's own around an agent, with a FindAgent of its own.
type finder struct {
	agent.Agent
	find func(name string) agent.Agent
}

func (f *finder) FindAgent(name string) agent.Agent { return f.find(name) }
func (f *finder) Properties() agent.Properties      { return agent.PropertiesOf(f.Agent) }

// TestFind: the root's FindAgent says whom a name means, and other names than those of agents may be among them.
func TestFind(t *testing.T) {
	billing := made(t, "billing")
	var asked []string
	root := &finder{Agent: made(t, "support", agent.WithSubAgents(made(t, "tech", agent.WithSubAgents(billing))))}
	root.find = func(name string) agent.Agent {
		asked = append(asked, name)
		switch name {
		case "support":
			return root
		case "money":
			return billing
		case "elsewhere":
			return made(t, "billing")
		}
		return root.Agent.FindAgent(name)
	}
	person := made(t, "person")
	tree, err := agent.NewTree(root, agent.WithHuman(person))
	require.NoError(t, err)
	asked = nil
	for name, path := range map[string]string{"support": "support", "tech": "support/tech", "billing": "support/tech/billing", "money": "support/tech/billing"} {
		n, err := tree.Find(name)
		require.NoError(t, err)
		require.Equal(t, path, n.Path)
	}
	require.ElementsMatch(t, []string{"support", "tech", "billing", "money"}, asked)
	n, err := tree.Find("nobody")
	require.NoError(t, err)
	require.Nil(t, n)
	n, err = tree.Find("elsewhere")
	require.Nil(t, n)
	require.EqualError(t, err, `FindAgent("elsewhere") of support (*agent_test.finder) returned the agent "billing" (*agent.funcAgent), which is not in the tree; `+
		`SubAgents lead to no agent of that name`)
	n, err = tree.Find(agent.Human)
	require.NoError(t, err)
	require.Equal(t, person, n.Agent, "who is not in the tree")
	require.NotContains(t, asked, agent.Human)
}

// TestFindContradictsSubAgents: such a tree is refused, with both answers.
func TestFindContradictsSubAgents(t *testing.T) {
	var none agent.TransferPolicy
	for name, c := range map[string]struct {
		find func(f *finder, name string) agent.Agent
		want []string
	}{
		"nothing": {func(f *finder, name string) agent.Agent {
			if name == "support" {
				return f
			}
			return nil
		}, []string{`support: FindAgent("tech") of support (*agent_test.finder) returned nil; SubAgents lead to tech (*agent.funcAgent) at support/tech; both must be the same agent`}},
		"another agent of the tree": {func(f *finder, name string) agent.Agent {
			if name == "billing" {
				return f.Agent.FindAgent("tech")
			}
			return f.Agent.FindAgent(name)
		}, []string{`support: FindAgent("billing") of support (*agent_test.finder) returned tech (*agent.funcAgent) at support/tech; SubAgents lead to billing (*agent.funcAgent) at support/tech/billing; both must be the same agent`}},
		"an agent that is not in the tree": {func(f *finder, name string) agent.Agent {
			if name == "tech" {
				return node(t, "tech", none)
			}
			return f.Agent.FindAgent(name)
		}, []string{`returned the agent "tech" (*agent.funcAgent), which is not in the tree; SubAgents lead to tech (*agent.funcAgent) at support/tech`}},
		"another one for itself": {func(f *finder, name string) agent.Agent {
			if name == "support" {
				return node(t, "support", none)
			}
			return f.Agent.FindAgent(name)
		}, []string{`FindAgent("support")`, "not in the tree", `SubAgents lead to support (*agent_test.finder) at support; if *agent_test.finder wraps that agent, add a method Unwrap() agent.Agent that returns it`}},
		"a nil pointer": {func(f *finder, name string) agent.Agent {
			if name == "tech" {
				return (*finder)(nil)
			}
			return f.Agent.FindAgent(name)
		}, []string{`returned the agent "" (*agent_test.finder), which is not in the tree`}},
		"a panic":                      {func(*finder, string) agent.Agent { panic("boom") }, []string{`FindAgent("support") of support (*agent_test.finder) panicked; SubAgents lead to`, "the panic is: boom"}},
		"what cannot be compared":      {func(f *finder, name string) agent.Agent { return byValue{Agent: f.Agent.FindAgent(name)} }, []string{"agent_test.byValue), which is not in the tree"}},
		"the embedded one for another": {func(f *finder, name string) agent.Agent { return f.Agent }, []string{`FindAgent("tech")`, "returned support (*agent_test.finder) at support;"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := &finder{Agent: node(t, "support", none, node(t, "tech", none, node(t, "billing", none)))}
			root.find = func(name string) agent.Agent { return c.find(root, name) }
			_, err := agent.NewTree(root)
			var te *agent.TreeError
			require.ErrorAs(t, err, &te)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, te.Problems, 1, "one problem for an agent: %s", err)

			_, err = agent.NewTree(node(t, "above", none, root))
			require.ErrorContains(t, err, "above/support: FindAgent(", "also below the root: a part of the tree may be run by itself")
		})
	}
}

// plain embeds an agent and says nothing about it.
type plain struct{ agent.Agent }

// deeper embeds a type that embeds one.
type deeper struct{ *plain }

// unwrapped also overrides the sub-agents, each of which it wraps.
type unwrapped struct {
	agent.Agent
	kids []agent.Agent
}

func (u *unwrapped) SubAgents() []agent.Agent { return u.kids }

// TestFindOfWrappers: the FindAgent of an agent inside of another one does not know that one.
func TestFindOfWrappers(t *testing.T) {
	var none agent.TransferPolicy
	leaf := node(t, "leaf", none)
	inner := node(t, "root", none, leaf)
	for name, root := range map[string]agent.Agent{
		"embeds": plain{inner}, "embeds, by pointer": &plain{inner}, "embeds twice": deeper{&plain{inner}}, "unwraps": quieter{inner}, "unwraps what embeds": quieter{plain{inner}},
		"children too": &unwrapped{inner, []agent.Agent{plain{leaf}}}, "Via": agent.Via(plain{inner}),
	} {
		tree, err := agent.NewTree(root)
		require.NoError(t, err, name)
		for _, a := range []string{"root", "leaf"} {
			n, err := tree.Find(a)
			require.NoError(t, err, name)
			require.Equal(t, tree.Node(a), n, name)
		}
		part, err := tree.Node("leaf").Subtree()
		require.NoError(t, err, name)
		n, err := part.Find("leaf")
		require.NoError(t, err, name)
		require.Equal(t, part.Root(), n)
	}
}

// TestFindChanges: what FindAgent says later is an error, and the tree stays as it was.
func TestFindChanges(t *testing.T) {
	root := &finder{Agent: made(t, "support", agent.WithSubAgents(made(t, "tech")))}
	root.find = func(name string) agent.Agent { return root.Agent.FindAgent(name) }
	tree, err := agent.NewTree(root)
	require.NoError(t, err)
	var wrong *agent.FindError
	for want, find := range map[string]func(string) agent.Agent{
		"returned nil":     func(string) agent.Agent { return nil },
		"returned support": func(string) agent.Agent { return root },
		"panicked":         func(string) agent.Agent { panic("boom") },
	} {
		root.find = find
		n, err := tree.Find("tech")
		require.ErrorAs(t, err, &wrong)
		require.ErrorContains(t, err, want)
		require.Equal(t, "find_agent", agent.ErrorCode(err))
		require.Equal(t, tree.Node("tech"), n)
	}
}

func BenchmarkFind(b *testing.B) {
	root, err := agent.New("support", "", nothing)
	require.NoError(b, err)
	tree, err := agent.NewTree(root)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if n, err := tree.Find("support"); n == nil || err != nil {
			b.Fatal(err)
		}
	}
}
