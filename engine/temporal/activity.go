package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// grace is how long cancelled work may take to end.
const grace = 2 * time.Second

// advance runs the next step of a turn, or several.
func (e *Engine) advance(ctx context.Context, at position) (outcome, error) {
	s := runner.Step{Turn: at.Turn, Seq: at.Seq}
	taken, known := 0, at.Seq > 0
	return e.try(ctx, func(ctx context.Context, n int) (out outcome, err error) {
		if n > e.tries {
			return outcome{Code: codeLeft}, nil
		}
		if !known {
			if out, known, err = e.knownOutcome(ctx, at); err != nil || !known {
				return out, err
			}
			if n > 1 && at.Steps == 1 && at.Tries == 0 { // the step may already be done
				if s.Seq, err = e.stored(ctx, at); err != nil {
					return out, notBegun(err)
				}
			}
		}
		if n > 1 {
			switch state, err := e.r.State(ctx, at.Key); {
			case err != nil:
				return outcome{}, notBegun(err)
			case state.Stopped && state.Seq != at.Seq: // during the try before
				return outcome{Code: codeStopped}, nil
			}
		}
		if s.Attempt == 0 {
			s.Attempt, s.Last = n+at.Tries, n == e.tries
			if n > 1 && at.Steps != 1 {
				s.Seq = 0 // an earlier try may have got further
			}
		}
		for {
			_, state, err := e.r.Advance(ctx, at.Key, s)
			if err != nil {
				return outcomeOf(state), err
			}
			if taken++; state.Over || taken == at.Steps || stopping(ctx) {
				return outcomeOf(state), nil
			}
			s = runner.Step{Turn: at.Turn, Seq: state.Seq, Attempt: 1}
		}
	})
}

// knownOutcome waits until the log contains what the workflow learned before it was stored.
func (e *Engine) knownOutcome(ctx context.Context, at position) (outcome, bool, error) {
	deadline := time.Now().Add(e.toBegin)
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		state, err := e.r.State(ctx, at.Key)
		switch late := time.Now().After(deadline); {
		case err != nil:
			return outcome{}, false, notBegun(err)
		case state.Turn == at.Turn && state.Stopped:
			return outcome{Code: codeStopped}, false, nil
		case state.Turn == at.Turn && (state.Seq > at.After || late && !state.Over):
			return outcome{}, true, nil
		case state.Turn == at.Turn && late: // the decision was announced but not stored in time
			return outcomeOf(state), false, nil
		case late:
			return outcome{Code: codeNotBegun}, false, nil
		}
		if err := sleep.For(ctx, wait); err != nil {
			return outcome{}, false, notBegun(err)
		}
	}
}

// stored returns the position of the end of the write that the workflow learned of before: the user's message, or
// decisions.
func (e *Engine) stored(ctx context.Context, at position) (seq int64, err error) {
	after, store := at.After, e.r.Store()
	if after == 0 {
		for ev, err := range session.Backward(ctx, store, at.Key, 0) {
			if err != nil {
				return 0, err
			}
			if _, begins := ev.Data.(*event.User); begins && ev.TurnID == at.Turn {
				after = ev.Seq - 1
				break
			}
		}
	}
	var written time.Time // no two writes have the same time
	for ev, err := range store.Load(ctx, at.Key, after) {
		if err != nil {
			return 0, err
		}
		if seq > 0 && !ev.Time.Equal(written) {
			break
		}
		seq, written = ev.Seq, ev.Time
	}
	return seq, nil
}

// deny denies the calls whose questions got no decision in time.
func (e *Engine) deny(ctx context.Context, at position) (outcome, error) {
	return e.tryAt(ctx, at, func(state runner.TurnState) (outcome, error) {
		var denied []runner.Decision
		for _, c := range state.Asked {
			if slices.Contains(at.Deny, c.At) {
				denied = append(denied, runner.Decision{CallID: c.ID, RelayID: c.Relay, Reason: "no decision came in time", By: "timeout"})
			}
		}
		if len(denied) == 0 {
			return outcomeOf(state), nil
		}
		_, state, err := e.r.Decide(ctx, at.Key, denied...)
		if errors.Is(err, runner.ErrNoApproval) { // somebody has just decided about a call: look again
			err = runner.ErrNotBegun
		}
		return outcomeOf(state), err
	})
}

// cancel cancels the turn.
func (e *Engine) cancel(ctx context.Context, at position) (outcome, error) {
	return e.tryAt(ctx, at, func(state runner.TurnState) (outcome, error) {
		events, err := e.r.Cancel(ctx, at.Key, runner.At(state.Seq))
		if err != nil {
			return outcome{}, notBegun(err) // further tries give the same error
		}
		return outcome{From: state.Seq, Seq: state.Seq + int64(len(events)), Over: true, Code: codeCanceled}, nil
	})
}

// tryAt calls try with the current state of the turn.
func (e *Engine) tryAt(ctx context.Context, at position, do func(runner.TurnState) (outcome, error)) (outcome, error) {
	return e.try(ctx, func(ctx context.Context, _ int) (outcome, error) {
		switch state, err := e.r.State(ctx, at.Key); {
		case err != nil:
			return outcome{}, notBegun(err)
		case state.Turn != at.Turn:
			return outcome{}, runner.ErrTurnOver
		default:
			return do(state)
		}
	})
}

func outcomeOf(s runner.TurnState) outcome {
	out := outcome{Seq: s.Seq, Over: s.Over, Waits: s.Waits}
	for _, c := range s.Asked {
		out.Asked = append(out.Asked, c.At)
	}
	return out
}

func notBegun(err error) error { return fmt.Errorf("%w: %w", runner.ErrNotBegun, err) }

func stopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}

// try runs an activity while it sends heartbeats to the server, and reduces the result to what Temporal may know:
// positions and codes. do gets the number of the try among those that have begun something. try calls do again while do
// begins nothing. If it leaves the waiting to the server, it reports this in a heartbeat: the next try then has the
// same number.
func (e *Engine) try(ctx context.Context, do func(ctx context.Context, n int) (outcome, error)) (outcome, error) {
	info := activity.GetInfo(ctx)
	idle := 0 // the tries that are known to have begun nothing
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &idle) // without them all tries count
	}
	n := max(1, int(info.Attempt)-idle)
	quiet := heartbeat(ctx, info.HeartbeatTimeout/5, idle)
	defer quiet()
	deadline := time.Now().Add(e.wait)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		out, err := within(ctx, func() (outcome, error) { return do(ctx, n) })
		var run *agent.RunError
		switch {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return outcome{}, ctx.Err()
		case errors.Is(err, session.ErrStopped):
			return outcome{Code: codeStopped}, nil
		case errors.Is(err, runner.ErrTurnOver):
			return outcome{Over: true, Code: codeTurnOver}, nil
		case errors.As(err, &run) && out.Over:
			out.Code = cmp.Or(agent.ErrorCode(err), "agent_error")
			return out, nil
		case errors.Is(err, agent.ErrBadInput), errors.Is(err, runner.ErrNoApproval):
			e.logger.Error("a step of a turn is refused", "workflow", info.WorkflowExecution.ID, "error", err)
			return outcome{}, temporal.NewNonRetryableApplicationError("the step is refused", code(err), nil)
		case !errors.Is(err, runner.ErrNotBegun):
			e.logger.Warn("a step of a turn failed", "workflow", info.WorkflowExecution.ID, "try", n, "error", err)
			o := temporal.ApplicationErrorOptions{}
			if model := (*llm.Error)(nil); errors.As(err, &model) {
				o.NextRetryDelay = model.RetryAfter
			}
			return outcome{}, temporal.NewApplicationErrorWithOptions("the step failed", code(err), o)
		case time.Now().After(deadline):
			e.logger.Warn("a step of a turn cannot be begun", "workflow", info.WorkflowExecution.ID, "error", err)
			quiet() // so that no old value overwrites this one
			activity.RecordHeartbeat(ctx, idle+1)
			return outcome{}, temporal.NewApplicationErrorWithOptions("the step could not be begun", code(err), temporal.ApplicationErrorOptions{NextRetryDelay: time.Second})
		}
		_ = sleep.For(ctx, wait)
	}
}

// code returns the code of an error, without any text.
func code(err error) string {
	switch {
	case errors.Is(err, agent.ErrBadInput):
		return "bad_input"
	case errors.Is(err, runner.ErrNoApproval):
		return "no_approval"
	case errors.Is(err, agent.ErrSessionBusy):
		return "session_busy"
	case errors.Is(err, agent.ErrConflict):
		return "conflict"
	}
	return cmp.Or(agent.ErrorCode(err), "error")
}

// heartbeat sends heartbeats until the returned function is called, also while the activity is being cancelled.
func heartbeat(ctx context.Context, interval time.Duration, idle int) (stop func()) {
	ctx = context.WithoutCancel(ctx)
	beats, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep.For(beats, interval) == nil { // a short step needs no heartbeat
			activity.RecordHeartbeat(ctx, idle)
		}
	}()
	return func() { end(); <-done }
}

// within calls a function and returns with it, or soon after the context has ended, because a model may ignore the
// context.
func within(ctx context.Context, do func() (outcome, error)) (outcome, error) {
	var out outcome
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err = do()
	}()
	select {
	case <-done:
		return out, err
	case <-ctx.Done():
	}
	select {
	case <-done:
		return out, err
	case <-time.After(grace):
		return outcome{}, ctx.Err()
	}
}
