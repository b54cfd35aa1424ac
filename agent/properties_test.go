package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
)

// homeward is around an agent after which its parent answers, whatever it says itself.
type homeward struct{ agent.Agent }

func (h homeward) Unwrap() agent.Agent { return h.Agent }

func (h homeward) Properties() agent.Properties {
	p := agent.PropertiesOf(h.Agent)
	p.Return = agent.ReturnToParent
	return p
}

// quieter is around an agent and changes nothing.
type quieter struct{ agent.Agent }

func (q quieter) Unwrap() agent.Agent { return q.Agent }

type unplugged struct{ agent.Agent }

func (unplugged) Ready(context.Context) error { return errors.New("unplugged") }

func TestWrappersKeepWhatTheyDoNotChange(t *testing.T) {
	inside := made(t, "inside")
	inner := made(t, "b", agent.WithSubAgents(agent.Via(made(t, "c"), agent.HideReason())), agent.WithGuards(agent.Guard{Name: "own"}),
		agent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}), agent.WithInnerAgents(inside))
	tree, err := agent.NewTree(made(t, "a", agent.WithSubAgents(quieter{homeward{agent.Via(inner, agent.GuardedBy(agent.Guard{Name: "edge"}))}})))
	require.NoError(t, err)
	b := tree.Node("b")
	require.Equal(t, "a c", targets(b))
	require.Equal(t, agent.ReturnToParent, b.Properties.Return)
	require.True(t, tree.Node("c").Edge.HideReason, "of the edges below")
	require.Len(t, b.Guards(), 2, "its own, and the one of the edge, which Via has put inside of the wrapper")
	require.IsType(t, quieter{}, b.Agent)
	require.Len(t, b.Inner("inside"), 1)
	require.Equal(t, agent.StayActive, tree.Root().Properties.Return)
	require.Equal(t, map[string][]string{"a": {"a"}, "b": {"b"}, "c": {"c"}, "inside": {"inside"}}, tree.Names())
	require.Zero(t, agent.PropertiesOf(unplugged{inner}), "without Unwrap and Properties nothing is kept")
}

func TestAsFindsTheNearest(t *testing.T) {
	ready, ok := agent.As[agent.Readier](quieter{homeward{unplugged{made(t, "a")}}})
	require.True(t, ok)
	require.EqualError(t, ready.Ready(t.Context()), "unplugged")
	_, ok = agent.As[agent.Readier](quieter{made(t, "a")})
	require.False(t, ok)
	_, ok = agent.As[agent.Readier](nil)
	require.False(t, ok)
	_, ok = agent.As[agent.Readier](agent.Via(nil))
	require.False(t, ok)
}
