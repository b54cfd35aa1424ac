package agent_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

func nothing(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(func(*event.Event, error) bool) {}
}

func node(t *testing.T, name string, p agent.TransferPolicy, kids ...agent.Agent) agent.Agent {
	a, err := agent.New(name, name+"'s work", nothing, agent.WithSubAgents(kids...), agent.WithTransferPolicy(p))
	require.NoError(t, err)
	return a
}

func targets(n *agent.Node) string {
	var names []string
	for _, t := range n.Targets() {
		names = append(names, t.Agent.Name())
	}
	return strings.Join(names, " ")
}

func TestTreePathsAndTargets(t *testing.T) {
	up := agent.TransferPolicy{AllowTransferToParent: true}
	peers := agent.TransferPolicy{AllowTransferToPeers: true}
	both := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
	root := node(t, "support", both,
		node(t, "billing", up),
		node(t, "tech", both, node(t, "network", peers), node(t, "database", agent.TransferPolicy{})),
		node(t, "account", peers))
	tree, err := agent.NewTree(root)
	require.NoError(t, err)
	var walked []string
	for n := range tree.Walk() {
		walked = append(walked, n.Path)
	}
	require.Equal(t, []string{"support", "support/billing", "support/tech", "support/tech/network", "support/tech/database", "support/account"}, walked)
	for name, want := range map[string]string{
		"support": "billing tech account", // a root has no parent and no peers
		"billing": "support", "tech": "support billing network database account",
		"network": "database", "database": "", "account": "billing tech",
	} {
		require.Equal(t, want, targets(tree.Node(name)), name)
	}
	require.Equal(t, root, root.FindAgent("support"))
	require.Equal(t, "network", root.FindAgent("network").Name())
	require.Nil(t, root.FindAgent("nobody"))
}

type sequence struct{ agent.Agent }

func (*sequence) Properties() agent.Properties { return agent.Properties{Workflow: true} }

func TestWorkflowsAreNeverTargetsOfTheirChildren(t *testing.T) {
	both := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
	tree, err := agent.NewTree(&sequence{node(t, "steps", both, node(t, "one", both), node(t, "two", both))})
	require.NoError(t, err)
	require.Empty(t, targets(tree.Node("one")))
}

type cyclic struct {
	agent.Agent
	kids []agent.Agent
}

func (c *cyclic) SubAgents() []agent.Agent { return c.kids }

type byValue struct {
	agent.Agent
	_ []int // not comparable
}

func TestTreeReportsAllProblems(t *testing.T) {
	var none agent.TransferPolicy
	shared := node(t, "shared", none)
	loop := &cyclic{Agent: node(t, "loop", none)}
	loop.kids = []agent.Agent{loop}
	root := node(t, "root", none, shared, node(t, "b", none, shared), node(t, "b", none), loop,
		byValue{Agent: node(t, "value", none)}, agent.Via(node(t, "edge", none), agent.HideReason()))
	_, err := agent.NewTree(root)
	var te *agent.TreeError
	require.ErrorAs(t, err, &te)
	text := err.Error()
	for _, want := range []string{"two parents", `name "b" is taken`, "its own ancestor", "cannot be compared"} {
		require.Contains(t, text, want)
	}
	require.Len(t, te.Problems, 4, text)
	_, err = agent.NewTree(nil)
	require.ErrorAs(t, err, &te)
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "user", "human", "a b", "ä", "a/b", strings.Repeat("x", 65)} {
		_, err := agent.New(name, "", nothing)
		require.Error(t, err, "%q", name)
	}
	for _, name := range []string{"a", "A-b_9", strings.Repeat("x", 64)} {
		_, err := agent.New(name, "", nothing)
		require.NoError(t, err, "%q", name)
	}
	_, err := agent.New("a", "", nil)
	require.ErrorContains(t, err, "nil")
	_, err = agent.New("a", "", nothing, agent.WithSubAgents(nil))
	require.ErrorContains(t, err, "nil")
}
