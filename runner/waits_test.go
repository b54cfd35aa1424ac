package runner_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// gate is an agent that waits until something was done elsewhere.
type gate struct {
	agent.Agent
	open  bool
	since []int64
}

func newGate(t *testing.T, name string) *gate {
	g := &gate{}
	g.Agent = must.Get(agent.New(name, "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			g.since = append(g.since, inv.Since())
			if g.open {
				yield(&event.Event{Data: &event.Text{Content: "Come in."}}, nil)
				return
			}
			if yield(&event.Event{Data: &event.Text{Content: "Open the gate."}, More: true}, nil) {
				yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
			}
		}
	}))
	return g
}

func TestResumeLooksAgain(t *testing.T) {
	g := newGate(t, "gate")
	store := sessiontest.Memory(t)
	r := newRunner(t, g, store)
	events := run(t, r, s1, "Hello")
	require.Equal(t, event.FinishReasonInputRequired, endOf(events))
	paused := events[len(events)-1]

	_, done, err := over(r.Advance(context.Background(), s1, runner.Step{Attempt: 2}))
	require.NoError(t, err)
	require.True(t, done, "an engine sees that the turn is over")
	_, err = collect(r.Resume(context.Background(), s1, runner.Approve("x")))
	require.ErrorIs(t, err, runner.ErrNoApproval)

	r = must.Get(runner.New(g, store)) // another process
	again := finish(t, r.Resume(context.Background(), s1))
	require.Equal(t, event.FinishReasonInputRequired, endOf(again))
	require.Equal(t, event.TypeHarnessStart, again[0].Type())
	require.Equal(t, paused.RunID+":harness_end", again[0].ParentID)
	require.NotEqual(t, paused.RunID, again[0].RunID)
	require.Equal(t, paused.TurnID, again[0].TurnID)

	g.open = true
	rest := finish(t, r.Resume(context.Background(), s1))
	_, text := lastText(rest)
	require.Equal(t, "Come in.", text)
	require.Equal(t, event.FinishReasonStop, endOf(rest))
	require.Equal(t, []int64{1, 1, 1}, g.since, "all three are one piece of work")
	rest = finish(t, r.Resume(context.Background(), s1))
	require.Empty(t, rest)
}

// An engine has it looked whether what a turn waits for was done.
func TestDecideLooksAgain(t *testing.T) {
	g := newGate(t, "gate")
	r := newRun(t, g)
	run(t, r, s1, "Hello")
	g.open = true
	events, state, err := r.Decide(t.Context(), s1)
	require.NoError(t, err)
	require.Equal(t, event.TypeHarnessStart, events[0].Type())
	require.False(t, state.Over)
	_, state, err = r.Advance(t.Context(), s1, runner.Step{Turn: state.Turn, Seq: state.Seq})
	require.NoError(t, err)
	require.True(t, state.Over)
	require.False(t, state.Waits)
	events, _, err = r.Decide(t.Context(), s1)
	require.NoError(t, err)
	require.Empty(t, events)
}

func TestWaitingAgentThatIsGone(t *testing.T) {
	g := newGate(t, "gate")
	store := sessiontest.Memory(t)
	r := newRunner(t, g, store)
	run(t, r, s1, "Hello")
	r = newRunner(t, says(t, "root", "The gate is gone."), store)
	events := finish(t, r.Resume(context.Background(), s1))
	require.Equal(t, "root", events[0].Agent)
	require.Equal(t, "agent_gone", events[1].Data.(*event.Notice).Code)
	require.Equal(t, "root: The gate is gone.", said(events))
}

// TestForkLooksAgain: what waits in a call of a session waits in its fork, too, whose runs are its own.
func TestForkLooksAgain(t *testing.T) {
	for name, alone := range map[string]bool{"alone": true, "in a call": false} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "gate")
			var root agent.Agent = g
			if !alone {
				root = scriptedAgent(t, "root", seq(scripted.Reply(scripted.Call("gate", `{"input":"?"}`)), scripted.Reply(scripted.Text("It is open."))),
					llmagent.WithTools(agentTool(t, g)))
			}
			store := sessiontest.Memory(t)
			r := newRunner(t, root, store)
			run(t, r, s1, "Hello")
			past := load(t, r, s1)
			require.NoError(t, store.Fork(t.Context(), s1, int64(len(past)), forked))
			g.open = true
			events := finish(t, r.Resume(t.Context(), forked))
			require.Equal(t, event.FinishReasonStop, endOf(events))
			require.Equal(t, event.NoticeForked, events[1].Data.(*event.Notice).Code)
			for _, e := range events {
				for _, before := range past {
					require.NotEqual(t, before.RunID, e.RunID, "%v", e)
				}
			}
		})
	}
}

// The user goes on instead, or gives the turn up.
func TestWaitingTurnIsLeft(t *testing.T) {
	g := newGate(t, "gate")
	r := newRun(t, g)
	run(t, r, s1, "Hello")
	g.open = true
	events := run(t, r, s1, "It is open")
	require.Equal(t, event.TypeUser, events[0].Type())
	require.Equal(t, event.FinishReasonStop, endOf(events))

	g.open = false
	run(t, r, s1, "Hello")
	events = must.Get(r.Cancel(context.Background(), s1))
	require.Equal(t, event.FinishReasonCanceled, endOf(events))
	events = finish(t, r.Resume(context.Background(), s1))
	require.Empty(t, events)
}

func TestMetadataReachesAgents(t *testing.T) {
	var got map[string]any
	a := must.Get(agent.New("a", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			got = inv.Metadata()
			yield(&event.Event{Data: &event.Text{Content: "ok"}}, nil)
		}
	}))
	finish(t, newRun(t, a).Run(context.Background(), s1, llm.UserText("Hi"), runner.WithMetadata(map[string]any{"k": "v"})))
	require.Equal(t, map[string]any{"k": "v"}, got)
}
