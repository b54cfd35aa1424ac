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
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// going is a turn that goes on: what was stored of it here, where it stood then, and who drives it, if anybody does.
type going struct {
	stored []*event.Event
	runner.TurnState
	run client.WorkflowRun
}

// Run gives the user's message to the session's active agent, and yields what happens as runner.Run does. The words
// are stored here, and the steps are taken by workers. The errors are those of runner.Run, and Temporal's.
//
// A turn goes on when the context ends or the loop is left: [Engine.Resume] follows it again, and [Engine.Cancel] ends it.
// The contexts of package live are different: what they stop or cancel is cut off, and can be resumed.
func (e *Engine) Run(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		g, err := e.begin(ctx, key, msg, opts)
		e.show(ctx, key, g, err, yield)
	}
}

// begin starts the workflow first, so that a turn that is stored has one whatever happens, and then stores the words. A
// turn that was begun before is followed.
func (e *Engine) begin(ctx context.Context, key session.Key, msg llm.Message, opts []runner.TurnOption) (g going, err error) {
	pin, err := runner.PinOf(opts...)
	if err = errors.Join(err, session.CheckKey(key)); err != nil {
		return g, err
	}
	if pin.Turn == "" {
		pin.Turn = strings.ToLower(rand.Text())
		opts = append(opts[:len(opts):len(opts)], runner.WithTurnID(pin.Turn, 1))
	}
	g, err = e.start(ctx, order{place{Key: key, Turn: pin.Turn, Tries: max(0, pin.Attempt-1)}, e.settings, time.Time{}})
	if err != nil || g.Turn != "" {
		return g, err
	}
	started := time.Now()
	err = e.patiently(ctx, key, func() error {
		g.stored, g.TurnState, err = e.r.Begin(ctx, key, msg, opts...)
		return err
	})
	switch {
	case errors.Is(err, runner.ErrNotBegun):
		_ = e.c.TerminateWorkflow(context.WithoutCancel(ctx), g.run.GetID(), g.run.GetRunID(), "the turn was not begun") // else it finds out itself
	case err == nil && time.Since(started) > e.toBegin/2: // it may have waited for too long
		g.run, err = e.push(ctx, place{Key: key, Turn: g.Turn, Seq: g.Seq})
	}
	return g, err
}

// start starts the workflow of a turn that is to begin, in the place of one that waits for something. If the turn was begun
// before, and its workflow is at work, it says how that stands. A session that has something else to do is busy.
func (e *Engine) start(ctx context.Context, o order) (g going, err error) {
	for deadline := time.Now().Add(2 * time.Second); ; err = pause(ctx, 5*time.Millisecond) {
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
			return going{TurnState: state, run: run}, nil
		case state.Over && idle:
			if err := e.c.TerminateWorkflow(ctx, run.GetID(), run.GetRunID(), "another turn begins"); err != nil && !gone(err) {
				return g, err
			}
		case !state.Over || time.Now().After(deadline): // else the log says that it is over, and Temporal will
			return g, fmt.Errorf("session %s: a turn is under way: %w", o.Key, agent.ErrSessionBusy)
		}
	}
}

// open returns the open workflow of a session, nil if it has none. It is idle if it waits for somebody to signal something.
func (e *Engine) open(ctx context.Context, key session.Key) (run client.WorkflowRun, idle bool, err error) {
	d, err := e.c.DescribeWorkflowExecution(ctx, workflowID(key), "")
	switch {
	case gone(err):
		return nil, false, nil
	case err != nil || d.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return nil, false, err
	}
	return e.c.GetWorkflow(ctx, workflowID(key), d.WorkflowExecutionInfo.Execution.RunId), len(d.PendingActivities) == 0 && d.PendingWorkflowTask == nil, nil
}

// push has the session's workflow go on, and starts one at a place if there is none.
func (e *Engine) push(ctx context.Context, at place) (client.WorkflowRun, error) {
	return e.c.SignalWithStartWorkflow(ctx, workflowID(at.Key), signalLook, look{at.After}, e.options(at.Key), turnWorkflow, order{at, e.settings, time.Time{}})
}

func gone(err error) bool { return errors.As(err, new(*serviceerror.NotFound)) }

// Resume follows a turn that is under way, and goes on with one that was cut off, that waits for something done elsewhere, or
// whose calls the decisions are about, as runner.Resume does.
func (e *Engine) Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		g, err := e.goOn(ctx, key, decisions)
		e.show(ctx, key, g, err, yield)
	}
}

// Decide stores decisions, and has the turn go on that waits for them. Decisions that were made before change nothing. The errors
// are those of runner.Decide, and Temporal's.
func (e *Engine) Decide(ctx context.Context, key session.Key, decisions ...runner.Decision) error {
	_, err := e.goOn(ctx, key, decisions)
	return err
}

// goOn has a turn go on. The workflow hears of decisions before they are stored, so that none is overlooked.
func (e *Engine) goOn(ctx context.Context, key session.Key, decisions []runner.Decision) (g going, err error) {
	if g.TurnState, err = e.r.State(ctx, key); err != nil {
		return g, err
	}
	at := place{Key: key, Turn: g.Turn, Seq: g.Seq, Tries: 1} // who was at work there may have begun something
	if len(decisions) > 0 || g.Waits {
		after := place{Key: key, Turn: g.Turn, After: g.Seq}
		asked := slices.ContainsFunc(g.Asked, func(r *event.Relay) bool {
			return slices.ContainsFunc(decisions, func(d runner.Decision) bool { return d.CallID == r.ToolCallID })
		})
		if asked {
			if g.run, err = e.push(ctx, after); err != nil {
				return g, err
			}
		}
		err = e.patiently(ctx, key, func() error {
			g.stored, g.TurnState, err = e.r.Decide(ctx, key, decisions...)
			return err
		})
		if at.Seq = g.Seq; len(decisions) == 0 { // a run that takes up what was done elsewhere
			at = after
		}
	}
	if err != nil || g.run != nil || g.Over {
		return g, err
	}
	run, idle, err := e.open(ctx, key)
	if g.run = run; err == nil && (run == nil || idle) { // else a worker has it at work
		g.run, err = e.push(ctx, at)
	}
	return g, err
}

// Cancel ends the session's last turn for good, as runner.Cancel does, also one that a worker has at work, and one
// whose model does not heed its context. It returns what that stored.
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
		out, err := e.end(ctx, run, ending{Cancel: true})
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
		if state, unread := e.r.State(ctx, key); unread != nil || !state.Over || pause(ctx, 5*time.Millisecond) != nil {
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
	for err == nil {
		switch err = run.Get(ctx, &out); {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case errors.As(err, new(*temporal.WorkflowExecutionError)), gone(err):
			e.logger.Warn("the workflow of a turn has failed", "workflow", run.GetID(), "error", err)
			return outcome{Code: codeLeft}, nil
		}
		err = pause(ctx, time.Second) // the server cannot be reached
	}
	return out, err
}

// show yields what was stored, and then what happens until the turn is over or waits for somebody.
func (e *Engine) show(ctx context.Context, key session.Key, g going, err error, yield func(*event.Event, error) bool) {
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
			if cause := context.Cause(ctx); errors.Is(cause, live.ErrStopped) || errors.Is(cause, live.ErrCanceled) {
				e.stop(ctx, g.run)
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
				yield(nil, &agent.RunError{Agent: ev.Agent, Code: failure.Code, Err: recorded{failure}})
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
	if err != nil {
		return
	}
	if state, err := e.r.State(ctx, key); err != nil || state.Over { // the end is in the log
		return
	}
	_ = pause(ctx, 250*time.Millisecond) // for what is on its way to be seen
	quit(cmp.Or(map[string]error{codeStopped: live.ErrStopped, codeTurnOver: runner.ErrTurnOver}[out.Code], runner.ErrLeft))
}

// recorded is an error that the log has. It is what has its code.
type recorded struct{ *event.Failure }

func (r recorded) Error() string        { return r.Message }
func (r recorded) Is(target error) bool { return r.Code != "" && agent.ErrorCode(target) == r.Code }
