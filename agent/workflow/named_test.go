package workflow_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
)

func quiet(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(func(*event.Event, error) bool) {}
}

type remote struct{ agent.Agent }

func (remote) Ready(context.Context) error { return errors.New("unplugged") }

func TestNamed(t *testing.T) {
	inner, err := agent.New("inner", "", quiet)
	require.NoError(t, err)
	writer, err := agent.New("writer", "Writes.", quiet, agent.WithSubAgents(inner), agent.WithReturn(agent.ReturnToParent),
		agent.WithGuards(agent.Guard{Name: "own"}))
	require.NoError(t, err)
	tree, err := agent.NewTree(workflow.Named(agent.Via(writer, agent.GuardedBy(agent.Guard{Name: "edge"})), "first draft"))
	require.NoError(t, err, "the name may be any text")
	root := tree.Root()
	require.Equal(t, "first draft", root.Agent.Name())
	require.Equal(t, "Writes.", root.Agent.Description())
	require.Equal(t, agent.ReturnToParent, root.Properties.Return)
	require.Len(t, root.Guards(), 2, "the options of the edge are kept")
	require.Equal(t, "first draft/inner", tree.Node("inner").Path)
	require.Equal(t, root.Agent, root.Agent.FindAgent("first draft"))
	require.Nil(t, root.Agent.FindAgent("writer"))
	require.Equal(t, inner, root.Agent.FindAgent("inner"))
	require.Equal(t, []string{"writer"}, tree.Names()["first draft"])

	ready, ok := agent.As[agent.Readier](workflow.Named(remote{writer}, "x y"))
	require.True(t, ok)
	require.Error(t, ready.Ready(t.Context()))
	_, err = agent.NewTree(workflow.Named(nil, "x"))
	require.Error(t, err)
}

// TestNoGroup: what runs agents without workflows is an error, not a panic.
func TestNoGroup(t *testing.T) {
	step, err := agent.New("step", "", quiet)
	require.NoError(t, err)
	tree, err := agent.NewTree(step)
	require.NoError(t, err)
	_, err = workflow.NewGroup(t.Context(), agent.NewInvocation(agent.InvocationParams{Node: tree.Root()}), 0)
	require.ErrorContains(t, err, "agent step is a workflow")
}
