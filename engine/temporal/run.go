package temporal

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// runningTurn is a running turn: what was stored of it here, its state at that time, and its workflow, if it has one.
type runningTurn struct {
	stored []*event.Event
	runner.TurnState
	run client.WorkflowRun
}

// Run sends the user's message to the session's active agent, and yields the events as runner.Run does. This process
// stores the message, and workers run the steps. The errors are those of runner.Run, and Temporal's.
//
// A turn continues when the context ends or the caller breaks out of the loop: [Engine.Resume] follows it again, and
// [Engine.Cancel] cancels it. Package live differs: if its contexts end, the turn is interrupted and can be resumed.
func (e *Engine) Run(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		g, err := e.begin(ctx, key, msg, opts)
		e.stream(ctx, key, g, err, yield)
	}
}

// begin first starts the workflow, so that a stored turn always has one, and then stores the message. If the turn was
// started before, it is followed.
func (e *Engine) begin(ctx context.Context, key session.Key, msg llm.Message, opts []runner.TurnOption) (g runningTurn, err error) {
	pin, err := runner.PinOf(opts...)
	if err = errors.Join(err, session.CheckKey(key)); err != nil {
		return g, err
	}
	if pin.Turn == "" {
		pin.Turn = strings.ToLower(rand.Text())
		opts = append(opts[:len(opts):len(opts)], runner.WithTurnID(pin.Turn, 1))
	}
	g, err = e.start(ctx, turnInput{position{Key: key, Turn: pin.Turn, Tries: max(0, pin.Attempt-1)}, e.settings, nil})
	if err != nil || g.Turn != "" {
		return g, err
	}
	started := time.Now()
	err = e.retryBusy(ctx, key, func() error {
		g.stored, g.TurnState, err = e.r.Begin(ctx, key, msg, opts...)
		return err
	})
	switch {
	case errors.Is(err, runner.ErrNotBegun):
		_ = e.c.TerminateWorkflow(context.WithoutCancel(ctx), g.run.GetID(), g.run.GetRunID(), "the turn was not begun") // otherwise it ends by itself after a while
	case err == nil && time.Since(started) > e.toBegin/2: // it may have waited for too long
		g.run, err = e.signal(ctx, position{Key: key, Turn: g.Turn, Seq: g.Seq})
	}
	return g, err
}

// start starts the workflow of a new turn, in place of one that waits. If the turn was started before and its workflow
// is running, it returns the turn's state. A session with another running turn is busy.
func (e *Engine) start(ctx context.Context, o turnInput) (g runningTurn, err error) {
	for deadline := time.Now().Add(2 * time.Second); ; err = sleep.For(ctx, 5*time.Millisecond) {
		if err != nil {
			return g, err
		}
		g.run, err = e.c.ExecuteWorkflow(ctx, e.options(o.Key), turnWorkflow, o)
		if err == nil || !errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
			return g, err
		}
		run, idle, err := e.open(ctx, o.Key)
		if err != nil {
			return g, err
		}
		state, err := e.r.State(ctx, o.Key)
		switch {
		case err != nil:
			return g, err
		case run == nil: // it has just ended
		case state.Turn == o.Turn:
			return runningTurn{TurnState: state, run: run}, nil
		case state.Stopped, state.Over && idle:
			if err := e.terminate(ctx, run, "another turn begins"); err != nil {
				return g, err
			}
		case !state.Over || time.Now().After(deadline): // otherwise the log says that it is over, and Temporal will soon
			return g, fmt.Errorf("session %s: a turn is under way: %w", o.Key, agent.ErrSessionBusy)
		}
	}
}

// terminate ends a workflow at once, if it has not ended. A worker that runs a step of it does not store what comes later.
func (e *Engine) terminate(ctx context.Context, run client.WorkflowRun, reason string) error {
	err := e.c.TerminateWorkflow(ctx, run.GetID(), run.GetRunID(), reason)
	if notFound(err) {
		err = nil
	}
	return err
}

// open returns the open workflow of a session, nil if there is none. idle reports that it waits for a signal.
func (e *Engine) open(ctx context.Context, key session.Key) (run client.WorkflowRun, idle bool, err error) {
	d, err := e.c.DescribeWorkflowExecution(ctx, workflowID(key), "")
	switch {
	case notFound(err):
		return nil, false, nil
	case err != nil || d.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return nil, false, err
	}
	return e.c.GetWorkflow(ctx, workflowID(key), d.WorkflowExecutionInfo.Execution.RunId), len(d.PendingActivities) == 0 && d.PendingWorkflowTask == nil, nil
}

// signal makes the session's workflow continue, or starts one at a position.
func (e *Engine) signal(ctx context.Context, at position) (client.WorkflowRun, error) {
	return e.c.SignalWithStartWorkflow(ctx, workflowID(at.Key), signalLook, continueSignal{at.After}, e.options(at.Key), turnWorkflow, turnInput{at, e.settings, nil})
}

func notFound(err error) bool { return errors.As(err, new(*serviceerror.NotFound)) }

// Resume follows a running turn. It resumes a turn that was interrupted, that waits for something done elsewhere, or
// that waits for the decisions, as runner.Resume does.
func (e *Engine) Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		g, err := e.continueTurn(ctx, key, decisions)
		e.stream(ctx, key, g, err, yield)
	}
}

// Decide stores decisions, and makes the turn that waits for them continue. Decisions that were made before change
// nothing. The errors are those of runner.Decide, and Temporal's.
func (e *Engine) Decide(ctx context.Context, key session.Key, decisions ...runner.Decision) error {
	_, err := e.continueTurn(ctx, key, decisions)
	return err
}

// continueTurn makes a turn continue. The workflow learns of decisions before they are stored, so that it misses none.
func (e *Engine) continueTurn(ctx context.Context, key session.Key, decisions []runner.Decision) (g runningTurn, err error) {
	if g.TurnState, err = e.r.State(ctx, key); err != nil {
		return g, err
	}
	at := position{Key: key, Turn: g.Turn, Seq: g.Seq, Tries: 1} // an earlier worker may have begun something
	if len(decisions) > 0 || g.Waits {
		after := position{Key: key, Turn: g.Turn, After: g.Seq}
		asked := slices.ContainsFunc(g.Asked, func(c session.Call) bool {
			return slices.ContainsFunc(decisions, func(d runner.Decision) bool { return d.CallID == c.ID })
		})
		if asked {
			if g.run, err = e.signal(ctx, after); err != nil {
				return g, err
			}
		}
		err = e.retryBusy(ctx, key, func() error {
			g.stored, g.TurnState, err = e.r.Decide(ctx, key, decisions...)
			return err
		})
		if at.Seq = g.Seq; len(decisions) == 0 { // a run that resumes after work done elsewhere
			at = after
		}
	}
	if err != nil || g.run != nil || g.Over {
		return g, err
	}
	run, idle, err := e.open(ctx, key)
	if err == nil && run != nil && g.Stopped { // this is the workflow before
		err, run = e.terminate(ctx, run, "the turn was stopped"), nil
	}
	if g.run = run; err == nil && (run == nil || idle) { // otherwise a worker is running it
		g.run, err = e.signal(ctx, at)
	}
	return g, err
}

// Cancel cancels the session's last turn, as runner.Cancel does, even if a worker is running it and its model ignores
// its context. It returns the events that it stored.
func (e *Engine) Cancel(ctx context.Context, key session.Key, opts ...runner.TurnOption) (events []*event.Event, err error) {
	pin, err := runner.PinOf(opts...)
	if err = errors.Join(err, session.CheckKey(key)); err != nil {
		return nil, err
	}
	run, _, err := e.open(ctx, key)
	if err != nil {
		return nil, err
	}
	if run != nil {
		if state, err := e.r.State(ctx, key); err != nil {
			return nil, err
		} else if pin.Pinned && state.Seq != pin.At {
			return nil, fmt.Errorf("session %s: the log ends at position %d, not at %d: %w", key, state.Seq, pin.At, agent.ErrConflict)
		}
		out, err := e.cancelWorkflow(ctx, run)
		if err != nil {
			return nil, err
		}
		if out.Code == codeCanceled {
			for ev, err := range e.r.Store().Load(ctx, key, out.From) {
				if err != nil || ev.Seq > out.Seq {
					return events, err
				}
				events = append(events, ev)
			}
			return events, nil
		}
	}
	err = e.retryBusy(ctx, key, func() error { // that no worker is running
		events, err = e.r.Cancel(ctx, key, opts...)
		return err
	})
	return events, err
}

// retryBusy retries for a second while the session is busy although its turn waits: the caller may be faster than the
// worker that releases the session.
func (e *Engine) retryBusy(ctx context.Context, key session.Key, do func() error) error {
	for deadline := time.Now().Add(time.Second); ; {
		err := do()
		if !errors.Is(err, agent.ErrSessionBusy) || time.Now().After(deadline) {
			return err
		}
		if state, unread := e.r.State(ctx, key); unread != nil || !state.Over || sleep.For(ctx, 5*time.Millisecond) != nil {
			return err
		}
	}
}

// cancelWorkflow cancels the turn of a workflow, and waits until the workflow has ended.
func (e *Engine) cancelWorkflow(ctx context.Context, run client.WorkflowRun) (out outcome, err error) {
	if err = e.c.SignalWorkflow(ctx, run.GetID(), run.GetRunID(), signalEnd, nil); err != nil && !notFound(err) {
		return out, err
	}
	return e.await(ctx, run)
}

// await waits until a workflow has ended. The error is the context's.
func (e *Engine) await(ctx context.Context, run client.WorkflowRun) (out outcome, err error) {
	for err == nil {
		switch err = run.Get(ctx, &out); {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case errors.As(err, new(*temporal.WorkflowExecutionError)), notFound(err):
			e.logger.Warn("the workflow of a turn has failed", "workflow", run.GetID(), "error", err)
			return outcome{Code: codeLeft}, nil
		}
		err = sleep.For(ctx, time.Second) // the server cannot be reached
	}
	return out, err
}

// stream yields the stored events, and then the following ones until the turn is over or waits.
func (e *Engine) stream(ctx context.Context, key session.Key, g runningTurn, err error, yield func(*event.Event, error) bool) {
	if err != nil {
		yield(nil, err)
		return
	}
	for _, ev := range g.stored {
		if !yield(ev, nil) {
			return
		}
	}
	if g.run == nil || g.Over {
		return
	}
	follows, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	go e.watch(follows, quit, key, g.run)
	var failure *event.Failure
	for entry, err := range e.tail.Follow(follows, key, session.Position{Seq: g.Seq}.String()) {
		if err != nil {
			if follows.Err() != nil {
				err = context.Cause(follows)
			}
			yield(nil, err)
			return
		}
		ev := entry.Event
		if !yield(ev, nil) {
			return
		}
		if ev.Partial || ev.Scope != "" || ev.TurnID != g.Turn {
			continue
		}
		switch d := ev.Data.(type) {
		case *event.HarnessStart:
			failure = nil
		case *event.Failure:
			failure = d
		case *event.HarnessEnd:
			if d.FinishReason == event.FinishReasonTransfer {
				continue
			}
			if failure != nil {
				yield(nil, &agent.RunError{Agent: ev.Agent, Code: failure.Code, Err: recordedFailure{failure}})
			}
			return
		}
	}
}

// watch ends the following of a turn whose workflow has ended before the turn.
func (e *Engine) watch(ctx context.Context, quit context.CancelCauseFunc, key session.Key, run client.WorkflowRun) {
	out, err := e.await(ctx, run)
	if err != nil {
		return
	}
	if state, err := e.r.State(ctx, key); err != nil || state.Over { // the log contains the end
		return
	}
	_ = sleep.For(ctx, 250*time.Millisecond) // wait for events that are still being delivered
	quit(cmp.Or(map[string]error{codeStopped: session.ErrStopped, codeTurnOver: runner.ErrTurnOver}[out.Code], runner.ErrLeft))
}

// recordedFailure is an error in the log. It matches the error with its code.
type recordedFailure struct{ *event.Failure }

func (r recordedFailure) Error() string { return r.Message }
func (r recordedFailure) Is(target error) bool {
	return r.Code != "" && agent.ErrorCode(target) == r.Code
}
