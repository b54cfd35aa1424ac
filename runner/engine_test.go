package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// engine is a tree of one agent with a tool that is not idempotent, as an engine runs it: each call is of a process of its own.
type engine struct {
	t     *testing.T
	store session.Store
	root  agent.Agent
	opts  []runner.Option
	runs  int // of the tool
	asked func()
}

func newEngine(t *testing.T, answer scripted.Answer, opts ...runner.Option) *engine {
	e := &engine{t: t, store: sessiontest.Memory(t), opts: append(opts, runner.WithIDs(transcript.Counter()))}
	pay := must.Get(tools.Func("pay", "Pays.", func(tools.Context, struct{}) (string, error) { e.runs++; return "paid", nil }))
	model := scripted.Func("clerk", func(req *llm.Request) scripted.Answer {
		if e.asked != nil {
			e.asked()
		}
		if req.Messages[len(req.Messages)-1].Role == llm.RoleUser {
			return answer
		}
		return scripted.Reply(scripted.Text("Done."))
	})
	e.root = must.Get(llmagent.New("clerk", "You pay.", model, llmagent.WithTools(pay)))
	return e
}

func (e *engine) process() *runner.Runner {
	return newRunner(e.t, e.root, e.store, e.opts...)
}

// advance takes a step that must not fail.
func (e *engine) advance(s runner.Step) ([]*event.Event, runner.TurnState) {
	events, state, err := e.process().Advance(e.t.Context(), s1, s)
	require.NoError(e.t, err)
	now := must.Get(e.process().State(e.t.Context(), s1))
	require.Equal(e.t, now, state)
	return events, state
}

func (e *engine) begin(id string, attempt int) ([]*event.Event, runner.TurnState, error) {
	return e.process().Begin(e.t.Context(), s1, llm.UserText("Pay it."), runner.WithTurnID(id, attempt))
}

var pays = scripted.Reply(scripted.CallID("c1", "pay", "{}"))

// TestStopBetweenSteps: a step that finds a request to stop does nothing but store that the turn was stopped, and only
// a step that is asked for after that pays.
func TestStopBetweenSteps(t *testing.T) {
	e := newEngine(t, pays)
	_, begun, err := e.begin("t-1", 1)
	require.NoError(t, err)
	_, called := e.advance(runner.Step{Turn: "t-1", Seq: begun.Seq})
	must.Get(e.store.Write(t.Context(), s1, session.Write{Stop: called.Seq}))

	events, stopped, err := e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-1", Seq: called.Seq})
	require.ErrorIs(t, err, session.ErrStopped)
	require.Len(t, events, 1)
	require.Equal(t, event.NoticeStopped, events[0].Data.(*event.Notice).Code)
	require.Equal(t, runner.TurnState{Seq: called.Seq + 1, Turn: "t-1", Stopped: true}, stopped)
	require.Zero(t, e.runs)

	for range 2 { // the caller may not know of that
		_, _, err = e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-1", Seq: called.Seq})
		require.ErrorIs(t, err, session.ErrStopped)
	}
	_, paid := e.advance(runner.Step{Turn: "t-1", Seq: stopped.Seq})
	require.False(t, paid.Stopped)
	require.Equal(t, 1, e.runs)
}

// TestStopInAStep: a step that finds a request to stop when it stores its answer says so.
func TestStopInAStep(t *testing.T) {
	e := newEngine(t, pays)
	_, begun, err := e.begin("t-1", 1)
	require.NoError(t, err)
	e.asked = func() { must.Get(e.store.Write(t.Context(), s1, session.Write{Stop: begun.Seq})) }
	for range 2 {
		_, state, err := e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-1", Seq: begun.Seq})
		require.ErrorIs(t, err, session.ErrStopped)
		require.True(t, state.Stopped)
	}
	require.Zero(t, e.runs)
}

// TestStoreStop: a stop is stored only if a write has requested it, and only once.
func TestStoreStop(t *testing.T) {
	e := newEngine(t, pays)
	_, begun, err := e.begin("t-1", 1)
	require.NoError(t, err)
	stored := func() runner.TurnState {
		require.NoError(t, e.process().StoreStop(t.Context(), s1))
		return must.Get(e.process().State(t.Context(), s1))
	}
	require.Equal(t, begun, stored())
	must.Get(e.store.Write(t.Context(), s1, session.Write{Stop: begun.Seq}))
	for range 2 {
		require.Equal(t, runner.TurnState{Seq: begun.Seq + 1, Turn: "t-1", Stopped: true}, stored())
	}
}

// TestPositionOfAnEarlierTurn: it says nothing of what this turn has done, whose call may have been begun.
func TestPositionOfAnEarlierTurn(t *testing.T) {
	e := newEngine(t, pays)
	_, before, err := e.begin("t-1", 1)
	require.NoError(t, err)
	_, begun, err := e.begin("t-2", 1)
	require.NoError(t, err)
	e.advance(runner.Step{Turn: "t-2", Seq: begun.Seq})
	events, _ := e.advance(runner.Step{Turn: "t-2", Seq: before.Seq, Attempt: 2})
	require.Zero(t, e.runs)
	require.True(t, events[0].Data.(*event.ToolResult).IsError)
}

// TestAdvanceIsOfOneTurn: a step of a turn is never one of the next, and a turn is begun once.
func TestAdvanceIsOfOneTurn(t *testing.T) {
	e := newEngine(t, scripted.Reply(scripted.Text("Yes.")))
	_, first, err := e.begin("t-1", 1)
	require.NoError(t, err)
	for attempt := range 3 {
		events, again, err := e.begin("t-1", attempt)
		require.NoError(t, err)
		require.Empty(t, events)
		require.Equal(t, first, again)
	}
	_, second, err := e.begin("t-2", 1)
	require.NoError(t, err)

	_, state, err := e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-1", Seq: first.Seq})
	require.ErrorIs(t, err, runner.ErrTurnOver)
	require.ErrorIs(t, err, runner.ErrNotBegun)
	require.Equal(t, "t-2", state.Turn)
	events, _, err := e.begin("t-1", 2)
	require.ErrorIs(t, err, runner.ErrTurnOver)
	require.Empty(t, events)
	_, _, err = e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-2", Seq: second.Seq + 1})
	require.ErrorIs(t, err, agent.ErrConflict)
	_, _, err = e.begin("no\nid", 1)
	require.ErrorIs(t, err, agent.ErrBadInput)

	events = finish(t, e.process().Run(t.Context(), s1, llm.UserText("Pay it."), runner.WithTurnID("t-2", 2)))
	require.Equal(t, "Yes.", events[0].Data.(*event.Text).Content, "it goes on")
}

// TestDecideTakesNoStep: a decision is stored once, and what it was about runs in the next step.
func TestDecideTakesNoStep(t *testing.T) {
	e := newEngine(t, pays)
	e.root = func() agent.Agent {
		pay := must.Get(tools.Func("pay", "Pays.", func(tools.Context, struct{}) (string, error) { e.runs++; return "paid", nil }, tools.NeedsApproval()))
		return must.Get(llmagent.New("clerk", "You pay.", e.root.(*llmagent.Agent).Model(), llmagent.WithTools(pay)))
	}()
	_, state, err := e.begin("t-1", 1)
	require.NoError(t, err)
	for !state.Over {
		_, state = e.advance(runner.Step{Turn: "t-1", Seq: state.Seq})
	}
	require.True(t, state.Waits)
	approved := runner.Approve(state.Asked[0].ID)
	events, again, err := e.process().Decide(t.Context(), s1)
	require.NoError(t, err)
	require.Empty(t, events, "what was asked keeps waiting")
	require.Equal(t, state, again)
	_, _, err = e.process().Decide(t.Context(), s1, runner.Approve("other"))
	require.ErrorIs(t, err, runner.ErrNoApproval)
	_, state, err = e.process().Decide(t.Context(), s1, approved)
	require.NoError(t, err)
	require.False(t, state.Over)
	require.Zero(t, e.runs)
	events, again, err = e.process().Decide(t.Context(), s1, approved)
	require.NoError(t, err)
	require.Empty(t, events)
	require.Equal(t, state, again)
	_, state = e.advance(runner.Step{Turn: "t-1", Seq: state.Seq})
	require.Equal(t, 1, e.runs)
	for !state.Over {
		_, state = e.advance(runner.Step{Turn: "t-1", Seq: state.Seq})
	}
	events, _, err = e.process().Decide(t.Context(), s1, approved)
	require.NoError(t, err)
	require.Len(t, events, 1, "the recorded result")
	require.Equal(t, 1, e.runs)
}

// TestNotBegun: what fails before the step is told from what fails in it.
func TestNotBegun(t *testing.T) {
	e := newEngine(t, scripted.Reply(scripted.Fail(errors.New("broken"))))
	lease := must.Get(sessiontest.Acquire(t.Context(), e.store, s1, session.Self()))
	_, _, err := e.begin("t-1", 1)
	require.ErrorIs(t, err, runner.ErrNotBegun)
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	require.NoError(t, sessiontest.Release(t.Context(), e.store, s1, lease))
	_, state, err := e.begin("t-1", 2)
	require.NoError(t, err)
	_, state, err = e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-1", Seq: state.Seq})
	require.NotErrorIs(t, err, runner.ErrNotBegun)
	require.ErrorAs(t, err, new(*agent.RunError))
	require.Equal(t, event.FinishReasonError, state.Finish)
}

// TestOuterRetries: an error that may go away leaves the turn where it was, but for what was shown and is void.
func TestOuterRetries(t *testing.T) {
	for name, streaming := range map[string]bool{"silent": false, "streaming": true} {
		t.Run(name, func(t *testing.T) {
			down := true
			e := newEngine(t, scripted.Answer{}, runner.WithOuterRetries())
			if streaming {
				e.opts = append(e.opts, runner.WithStreaming())
			}
			model := scripted.Func("clerk", func(*llm.Request) scripted.Answer {
				if down {
					return scripted.Reply(scripted.Text("Half of "), scripted.Fail(&llm.Error{Code: llm.CodeRateLimited, Retryable: true}))
				}
				return scripted.Reply(scripted.Text("Yes."))
			})
			var err error
			e.root = must.Get(llmagent.New("clerk", "You answer.", model))
			_, begun, err := e.begin("t-1", 1)
			require.NoError(t, err)
			events, failed, err := e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-1", Seq: begun.Seq})
			require.True(t, llm.Retryable(err))
			require.False(t, errors.As(err, new(*agent.RunError)))
			require.False(t, failed.Over)
			for _, e := range events {
				require.Equal(t, event.TypeDiscard, e.Type())
			}
			_, again, err := e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-1", Seq: begun.Seq, Attempt: 2})
			require.True(t, llm.Retryable(err), "what was void is no step")
			require.False(t, again.Over)
			down = false
			_, state := e.advance(runner.Step{Turn: "t-1", Seq: begun.Seq, Attempt: 3})
			require.True(t, state.Over)
			require.Equal(t, event.FinishReasonStop, state.Finish)
		})
	}
}

// TestLastTry: whoever does not try again has the failure stored.
func TestLastTry(t *testing.T) {
	e := newEngine(t, scripted.Reply(scripted.Fail(&llm.Error{Code: llm.CodeRateLimited, Retryable: true})), runner.WithOuterRetries())
	_, begun, err := e.begin("t-1", 1)
	require.NoError(t, err)
	_, state, err := e.process().Advance(t.Context(), s1, runner.Step{Turn: "t-1", Seq: begun.Seq, Attempt: 2, Last: true})
	require.ErrorAs(t, err, new(*agent.RunError))
	require.Equal(t, event.FinishReasonError, state.Finish)
}

// noticesOf returns the codes of the session's notices.
func noticesOf(t *testing.T, r *runner.Runner) (codes []string) {
	for _, d := range find[*event.Notice](load(t, r, s1)) {
		codes = append(codes, d.Code)
	}
	return codes
}

// TestAdoptAfterStops: a server that is stopped has not died, so a turn outlives more stops than deaths, but not any
// number of them.
func TestAdoptAfterStops(t *testing.T) {
	e := newEngine(t, scripted.Reply(scripted.Text("Yes.")))
	_, _, err := e.begin("t-1", 1)
	require.NoError(t, err)
	adopt := func(cause error) (failed error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		for _, err := range e.process().Adopt(ctx, s1) {
			failed = err
			if cancel(cause); cause == nil {
				break // as soon as it has the session
			}
		}
		return failed
	}
	for range 2 {
		require.NoError(t, adopt(nil), "a process dies")
	}
	for range 9 {
		require.ErrorIs(t, adopt(session.ErrAbandoned), session.ErrAbandoned)
	}
	left := must.Get(e.store.Orphans(t.Context(), session.Page{}))
	require.Len(t, left, 1)
	require.ErrorIs(t, adopt(session.ErrAbandoned), session.ErrAbandoned)
	require.ErrorIs(t, adopt(session.ErrAbandoned), runner.ErrLeft)
	codes := noticesOf(t, e.process())
	require.Len(t, codes, 2+2*10+1)
	require.Equal(t, []string{event.NoticeAdopted, event.NoticeGivenBack, event.NoticeLeft}, codes[len(codes)-3:])
	finish(t, e.process().Resume(t.Context(), s1))
	require.Empty(t, finish(t, e.process().Adopt(t.Context(), s1)), "it is over")
}

// TestAbandoned: a turn that is cut off for another process to go on with is found at once, and one that is stopped is not.
func TestAbandoned(t *testing.T) {
	for cause, want := range map[error]int{session.ErrAbandoned: 1, agent.ErrSuspended: 0} { // the orphans, and the notices of a stop
		e := newEngine(t, pays)
		ctx, cancel := context.WithCancelCause(t.Context())
		var last error
		for ev, err := range e.process().Run(ctx, s1, llm.UserText("Pay it.")) {
			if last = err; err == nil && ev.Type() == event.TypeToolCall {
				cancel(cause)
			}
		}
		cancel(nil)
		require.ErrorIs(t, last, cause)
		left := must.Get(e.store.Orphans(t.Context(), session.Page{}))
		require.Len(t, left, want)
		require.Len(t, noticesOf(t, e.process()), want)
		finish(t, e.process().Adopt(t.Context(), s1))
		left = must.Get(e.store.Orphans(t.Context(), session.Page{}))
		require.Empty(t, left)
	}
}
