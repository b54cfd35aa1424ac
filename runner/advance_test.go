package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestAdvance drives a turn step by step, each in a process of its own, and
// compares with the undisturbed run.
func TestAdvance(t *testing.T) {
	const agents, script = "support lookup\n  billing lookup", `
support: "One moment." call lookup#c1 {"id": 1} call transfer_to_agent#c2 {"agent_name": "billing"}
billing: call lookup#c3 {"id": 2}
billing: "Done."`
	ctx := context.Background()
	root, _ := tree(t, agents, script)
	whole := newRun(t, root, runner.WithIDs(transcript.Counter()))
	want := run(t, whole, s1, "Hi")

	root, s := tree(t, agents, script)
	store := sessiontest.Memory(t)
	ids := transcript.Counter()
	process := func() *runner.Runner {
		return newRunner(t, root, store, runner.WithIDs(ids))
	}
	got, _, err := process().Begin(ctx, s1, llm.UserText("Hi"))
	require.NoError(t, err)
	var steps []int
	for done := false; !done; {
		var events []*event.Event
		events, done, err = over(process().Advance(ctx, s1, runner.Step{Attempt: 1}))
		require.NoError(t, err)
		steps = append(steps, len(events))
		got = append(got, events...)
	}
	require.Equal(t, []int{4, 5, 2, 1, 3}, steps)
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.Equal(t, want[i].Type(), got[i].Type())
		require.Equal(t, want[i].Data, got[i].Data)
	}
	require.NoError(t, s.Done())

	events, done, err := over(process().Advance(ctx, s1, runner.Step{Attempt: 1}))
	require.NoError(t, err)
	require.True(t, done, "the turn is over")
	require.Empty(t, events)
	_, done, err = over(process().Advance(ctx, session.ID("new"), runner.Step{Attempt: 1}))
	require.NoError(t, err)
	require.True(t, done)
}

// over tells of a step whether its turn is over.
func over(events []*event.Event, s runner.TurnState, err error) ([]*event.Event, bool, error) {
	return events, s.Over, err
}
