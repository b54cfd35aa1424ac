package render

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// A tree that a server describes is drawn as one that is here.
func TestOutline(t *testing.T) {
	nothing := func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) {}
	}
	leaf, err := agent.New("leaf", "Below\x1b", nothing, agent.WithTransferPolicy(agent.TransferPolicy{}))
	require.NoError(t, err)
	twig, err := agent.New("twig", "", nothing, agent.WithSubAgents(leaf))
	require.NoError(t, err)
	side, err := agent.New("side", "Beside", nothing)
	require.NoError(t, err)
	root, err := agent.New("root", "Above", nothing, agent.WithSubAgents(twig, side))
	require.NoError(t, err)
	tree, err := agent.NewTree(root)
	require.NoError(t, err)
	data, err := json.Marshal(AgentsOf(tree))
	require.NoError(t, err)
	var told struct{ Root *Outline }
	require.NoError(t, json.Unmarshal(data, &told))
	var here, there strings.Builder
	Tree(&here, tree, Terminal{}, "leaf")
	told.Root.Draw(&there, Terminal{}, "leaf")
	require.Equal(t, here.String(), there.String())
	require.Contains(t, there.String(), "leaf ← active  Below␛")
}
