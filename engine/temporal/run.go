package temporal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Run gives the user's message to the session's active agent, and yields what happens as runner.Run does. The words
// are stored here, and the steps are taken by workers. The errors are those of runner.Run, and Temporal's.
//
// A turn goes on when the context ends or the loop is left: [Engine.Resume] follows it again, and [Engine.Cancel] ends it.
// The contexts of package live are different: what they stop or cancel is cut off, and can be resumed.
func (e *Engine) Run(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		events, state, run, err := e.begin(ctx, key, msg, opts)
		e.show(ctx, key, events, state, run, err, yield)
	}
}

// begin starts the workflow first, so that a turn that is stored has one whatever happens, and then stores the words. A
// turn that was begun before is followed.
func (e *Engine) begin(ctx context.Context, key session.Key, msg llm.Message, opts []runner.TurnOption) (events []*event.Event, state runner.TurnState, run client.WorkflowRun, err error) {
	pin, err := runner.PinOf(opts...)
	if err == nil {
		err = session.CheckKey(key)
	}
	if err != nil {
		return nil, state, nil, err
	}
	if pin.Turn == "" {
		pin = runner.Pin{Turn: newID(), Attempt: 1}
		opts = append(opts[:len(opts):len(opts)], runner.WithTurnID(pin.Turn, pin.Attempt))
	}
	o := order{place: place{Key: key, Turn: pin.Turn, Tries: max(0, pin.Attempt-1)}, settings: e.settings}
	run, begun, err := e.start(ctx, o)
	if err != nil || begun != nil {
		if begun != nil {
			state = *begun
		}
		return nil, state, run, err
	}
	started := time.Now()
	err = e.patiently(ctx, key, func() error {
		events, state, err = e.r.Begin(ctx, key, msg, opts...)
		return err
	})
	switch {
	case errors.Is(err, runner.ErrNotBegun):
		_ = e.c.TerminateWorkflow(context.WithoutCancel(ctx), run.GetID(), run.GetRunID(), "the turn was not begun") // else it finds out itself
	case err == nil && time.Since(started) > e.toBegin/2: // it may have waited for too long
		run, err = e.push(ctx, order{place: place{Key: key, Turn: state.Turn, Seq: state.Seq}, settings: e.settings}, look{})
	}
	return events, state, run, err
}

// start starts the workflow of a turn that is to begin, in the place of one that waits for something. If the turn was begun
// before, it returns how that stands, and its workflow if it has one. A session that has something to do is busy.
func (e *Engine) start(ctx context.Context, o order) (client.WorkflowRun, *runner.TurnState, error) {
	for deadline := time.Now().Add(2 * time.Second); ; {
		run, err := e.c.ExecuteWorkflow(ctx, e.options(o.Key), turnWorkflow, o)
		if err == nil || !errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
			return run, nil, err
		}
		run, idle, err := e.open(ctx, o.Key)
		if err != nil {
			return nil, nil, err
		}
		if run == nil { // it has just ended
			continue
		}
		state, err := e.r.State(ctx, o.Key)
		late := time.Now().After(deadline)
		switch {
		case err != nil:
			return nil, nil, err
		case state.Turn == o.Turn:
			return run, &state, nil
		case state.Over && idle:
			err = e.c.TerminateWorkflow(ctx, run.GetID(), run.GetRunID(), "another turn begins")
			if err != nil && !gone(err) {
				return nil, nil, err
			}
		case !state.Over || late:
			return nil, nil, fmt.Errorf("session %s: a turn is under way: %w", o.Key, agent.ErrSessionBusy)
		default: // the log says that it is over, and Temporal will
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return nil, nil, err
			}
		}
	}
}

// open returns the open workflow of a session, nil if it has none. It is idle if it waits for somebody to signal something.
func (e *Engine) open(ctx context.Context, key session.Key) (run client.WorkflowRun, idle bool, err error) {
	d, err := e.c.DescribeWorkflowExecution(ctx, workflowID(key), "")
	if gone(err) || err == nil && d.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return e.c.GetWorkflow(ctx, workflowID(key), d.WorkflowExecutionInfo.Execution.RunId), len(d.PendingActivities) == 0 && d.PendingWorkflowTask == nil, nil
}

// push has the session's workflow go on, and starts one if there is none.
func (e *Engine) push(ctx context.Context, o order, l look) (client.WorkflowRun, error) {
	return e.c.SignalWithStartWorkflow(ctx, workflowID(o.Key), signalLook, l, e.options(o.Key), turnWorkflow, o)
}

func gone(err error) bool { return errors.As(err, new(*serviceerror.NotFound)) }

// Resume follows a turn that is under way, and goes on with one that was cut off, that waits for something done elsewhere, or
// whose calls the decisions are about, as runner.Resume does.
func (e *Engine) Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		events, state, run, err := e.goOn(ctx, key, decisions)
		e.show(ctx, key, events, state, run, err, yield)
	}
}

// Decide stores decisions, and has the turn go on that waits for them. Decisions that were made before change nothing. The errors
// are those of runner.Decide, and Temporal's.
func (e *Engine) Decide(ctx context.Context, key session.Key, decisions ...runner.Decision) error {
	_, _, _, err := e.goOn(ctx, key, decisions)
	return err
}

// goOn has a turn go on. The workflow hears of decisions before they are stored, so that none is overlooked.
func (e *Engine) goOn(ctx context.Context, key session.Key, decisions []runner.Decision) (events []*event.Event, state runner.TurnState, run client.WorkflowRun, err error) {
	if state, err = e.r.State(ctx, key); err != nil {
		return nil, state, nil, err
	}
	if len(decisions) > 0 || state.Waits {
		if asksFor(state, decisions) {
			at := place{Key: key, Turn: state.Turn, After: state.Seq}
			if run, err = e.push(ctx, order{place: at, settings: e.settings}, look{After: state.Seq}); err != nil {
				return nil, state, nil, err
			}
		}
		before := state.Seq
		err = e.patiently(ctx, key, func() error {
			events, state, err = e.r.Decide(ctx, key, decisions...)
			return err
		})
		if err != nil || run != nil || state.Over {
			return events, state, run, err
		}
		if len(decisions) == 0 { // a run that takes up what was done elsewhere has just begun
			run, err = e.push(ctx, order{place: place{Key: key, Turn: state.Turn, After: before}, settings: e.settings}, look{After: before})
			return events, state, run, err
		}
	}
	if !state.Over {
		run, err = e.push(ctx, order{place: place{Key: key, Turn: state.Turn, Seq: state.Seq, Tries: 1}, settings: e.settings}, look{})
	}
	return events, state, run, err
}

func asksFor(state runner.TurnState, decisions []runner.Decision) bool {
	for _, d := range decisions {
		for _, asked := range state.Asked {
			if asked.ToolCallID == d.CallID {
				return true
			}
		}
	}
	return false
}

// Cancel ends the session's last turn for good, as runner.Cancel does, also one that a worker has at work, and one
// whose model does not heed its context. It returns what that stored.
func (e *Engine) Cancel(ctx context.Context, key session.Key, opts ...runner.TurnOption) ([]*event.Event, error) {
	pin, err := runner.PinOf(opts...)
	if err == nil {
		err = session.CheckKey(key)
	}
	if err != nil {
		return nil, err
	}
	run, _, err := e.open(ctx, key)
	if err != nil {
		return nil, err
	}
	if run != nil {
		if state, err := e.r.State(ctx, key); err != nil || pin.Pinned && state.Seq != pin.At {
			return nil, errors.Join(err, fmt.Errorf("session %s: the log is at %d, not at %d: %w", key, state.Seq, pin.At, agent.ErrConflict))
		}
		out, err := e.end(ctx, run, ending{Cancel: true})
		if err != nil {
			return nil, err
		}
		if out.Code == codeCanceled {
			return e.between(ctx, key, out.From, out.Seq)
		}
	}
	var events []*event.Event
	err = e.patiently(ctx, key, func() error { // what no worker has at work
		events, err = e.r.Cancel(ctx, key, opts...)
		return err
	})
	return events, err
}

// patiently tries again for a second while the session is busy though its turn rests: whoever has seen that may be
// quicker than the worker that lets go of it.
func (e *Engine) patiently(ctx context.Context, key session.Key, do func() error) error {
	for deadline := time.Now().Add(time.Second); ; {
		err := do()
		if !errors.Is(err, agent.ErrSessionBusy) || time.Now().After(deadline) {
			return err
		}
		if state, unread := e.r.State(ctx, key); unread != nil || !state.Over {
			return err
		}
		if pause(ctx, 5*time.Millisecond) != nil {
			return err
		}
	}
}

// end ends a workflow, and waits until it has.
func (e *Engine) end(ctx context.Context, run client.WorkflowRun, how ending) (out outcome, err error) {
	if err = e.c.SignalWorkflow(ctx, run.GetID(), run.GetRunID(), signalEnd, how); err != nil && !gone(err) {
		return out, err
	}
	return e.ended(ctx, run)
}

// ended waits until a workflow has ended. The error is that of the context.
func (e *Engine) ended(ctx context.Context, run client.WorkflowRun) (out outcome, err error) {
	for {
		switch err = run.Get(ctx, &out); {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case errors.As(err, new(*temporal.WorkflowExecutionError)), gone(err):
			e.logger.Warn("the workflow of a turn ended before the turn", "workflow", run.GetID(), "error", err)
			return outcome{Code: codeLeft}, nil
		}
		if err = pause(ctx, time.Second); err != nil { // the server cannot be reached
			return out, err
		}
	}
}

// between returns the events after one position, up to another one.
func (e *Engine) between(ctx context.Context, key session.Key, from, to int64) (events []*event.Event, err error) {
	for ev, err := range e.r.Store().Load(ctx, key, from) {
		if err != nil {
			return nil, err
		}
		if ev.Seq > to {
			break
		}
		events = append(events, ev)
	}
	return events, nil
}

// ErrStopped ends the events of a turn that was stopped before it was over. It can be resumed.
var ErrStopped = fmt.Errorf("the turn was stopped: %w", agent.ErrSuspended)

// show yields events, and then what happens until the turn is over or waits for somebody.
func (e *Engine) show(ctx context.Context, key session.Key, events []*event.Event, state runner.TurnState, run client.WorkflowRun, err error, yield func(*event.Event, error) bool) {
	if err != nil {
		yield(nil, err)
		return
	}
	for _, ev := range events {
		if !yield(ev, nil) {
			return
		}
	}
	if run == nil || state.Over {
		return
	}
	follows, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	go e.watch(follows, quit, key, run)
	var failure *event.Failure
	for entry, err := range e.tail.Follow(follows, key, session.Position{Seq: state.Seq}.String()) {
		if err != nil {
			if follows.Err() != nil {
				err = context.Cause(follows)
			}
			if errors.Is(err, live.ErrStopped) || errors.Is(err, live.ErrCanceled) {
				e.stop(ctx, run)
			}
			yield(nil, err)
			return
		}
		ev := entry.Event
		if !yield(ev, nil) {
			return
		}
		if ev.Partial || ev.Scope != "" || ev.TurnID != state.Turn {
			continue
		}
		switch d := ev.Data.(type) {
		case *event.Failure:
			failure = d
		case *event.HarnessEnd:
			if d.FinishReason == event.FinishReasonTransfer {
				continue
			}
			if failure != nil && (d.FinishReason == event.FinishReasonError || d.FinishReason == event.FinishReasonLimit) {
				yield(nil, &agent.RunError{Agent: ev.Agent, Code: failure.Code, Err: recorded(failure)})
			}
			return
		}
	}
}

// stop has a turn cut off whose follower was told to. Whoever told it waits.
func (e *Engine) stop(ctx context.Context, run client.WorkflowRun) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Heartbeat+2*grace)
	defer cancel()
	if _, err := e.end(ctx, run, ending{}); err != nil {
		e.logger.Warn("a turn could not be stopped", "workflow", run.GetID(), "error", err)
	}
}

// watch quits what follows a turn whose workflow has ended, though the turn has not.
func (e *Engine) watch(ctx context.Context, quit context.CancelCauseFunc, key session.Key, run client.WorkflowRun) {
	out, err := e.ended(ctx, run)
	if err != nil || out.Over && out.Code == "" {
		return // the end is in the log
	}
	if state, err := e.r.State(ctx, key); err != nil || state.Over {
		return
	}
	_ = pause(ctx, 250*time.Millisecond) // for what is on its way to be seen
	switch out.Code {
	case codeStopped:
		quit(ErrStopped)
	case codeTurnOver:
		quit(runner.ErrTurnOver)
	default:
		quit(runner.ErrLeft)
	}
}

// recorded is an error that the log has.
func recorded(f *event.Failure) error {
	for _, known := range []error{agent.ErrTransferLimit, agent.ErrTransferRejected, agent.ErrEmptyAnswer, agent.ErrRepeatedCall, agent.ErrLimit, agent.ErrTimeout} {
		if agent.ErrorCode(known) == f.Code {
			return recordedError{f.Message, known}
		}
	}
	return errors.New(f.Message)
}

type recordedError struct {
	message string
	known   error
}

func (e recordedError) Error() string { return e.message }
func (e recordedError) Unwrap() error { return e.known }
