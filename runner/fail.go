package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// failed ends a run with the error of its agent's step, and with the transfer to who goes on for
// the agent, if there is somebody. A cancelled turn stores nothing; a limit of time that
// cancelled it does.
func (l *lane) failed(run session.Run, n *agent.Node, err error) error {
	to := l.fallback(n, err)
	if err = l.quoting(run, err); to != nil {
		return l.handOn(run, n, to, err)
	}
	if cause := context.Cause(l.ctx); cause != nil {
		if !errors.Is(cause, agent.ErrLimit) && !errors.Is(cause, agent.ErrTimeout) {
			return cause
		}
		err = cause
	}
	if errors.Is(err, agent.ErrConflict) {
		return err // the log belongs to another writer now
	}
	if l.t.r.outer && !l.t.last && l.scope == "" && len(run.Pending) == 0 && llm.Retryable(err) && !errors.As(err, new(*agent.RunError)) {
		return l.leaveOpen(run, err)
	}
	l.answerRunning(run)
	return l.fail(run, err)
}

// leaveOpen ends the step with an error and stores nothing of it, but that what was shown is void.
func (l *lane) leaveOpen(run session.Run, err error) error {
	l.joined = slices.DeleteFunc(l.joined, func(e *event.Event) bool { _, void := e.Data.(*event.Discard); return !void }) // which has its usage
	if void := l.void(FailureOf(err).Code, "the answer was not completed"); void != nil {
		l.joined = append(l.joined, l.stamp(run, &event.Event{Data: void}))
	}
	if storeErr := l.commit(run); storeErr != nil {
		return errors.Join(err, storeErr)
	}
	return fmt.Errorf("agent %s: %w", run.Agent, err)
}

// answerRunning answers the calls that a step has run, some of which may have done their work.
func (l *lane) answerRunning(run session.Run) {
	if len(run.Pending) > 0 {
		l.answerPending(run, "interrupted; outcome unknown; check before you repeat it", func(c session.Call) bool {
			return c.Name == agent.TransferTool || c.Relay != "" && !c.Resolved // these have not run
		})
	}
}

// fail stores the error event and the run's end, together with the answers to
// calls that will never get another, and returns the turn's error.
func (l *lane) fail(run session.Run, err error) error {
	failure := FailureOf(err)
	reason := event.FinishReasonError
	if errors.Is(err, agent.ErrLimit) || errors.Is(err, agent.ErrTransferLimit) {
		reason = event.FinishReasonLimit
	}
	l.answerPending(run, "not executed: "+agent.ForModel(err), nil)
	ends := []event.Data{failure, &event.HarnessEnd{AgentID: run.AgentID, FinishReason: reason}}
	if void := l.void(failure.Code, "the answer was not completed"); void != nil {
		ends = append([]event.Data{void}, ends...)
	}
	for _, d := range ends {
		l.joined = append(l.joined, l.stamp(run, &event.Event{Data: d}))
	}
	events := l.joined
	l.joined = nil
	if storeErr := l.store(context.WithoutCancel(l.ctx), events); storeErr != nil {
		return errors.Join(err, storeErr)
	}
	l.deliver()
	var runErr *agent.RunError
	if errors.As(err, &runErr) {
		return err
	}
	return &agent.RunError{Agent: run.Agent, Code: failure.Code, Err: err}
}

// FailureOf returns an error of a turn or of a sample as the log has it: without a guard's own error, which may
// quote what the guard refused.
func FailureOf(err error) *event.Failure {
	f := &event.Failure{Code: errorCode(err), Message: err.Error(), Retryable: llm.Retryable(err)}
	if trip := (*agent.TripwireError)(nil); errors.As(err, &trip) {
		f.Message = trip.Refusal()
	}
	return f
}

// void returns what tells the consumer to drop the deltas of an answer that
// will not be completed, nil if it was shown none. The caller does not hold mu.
func (l *lane) void(code, message string) event.Data {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if ids := l.t.unsettled(l.scope, l.joined); len(ids) > 0 {
		return &event.Discard{Code: code, Message: message, IDs: ids}
	}
	return nil
}

// pending returns the calls that have a result neither in the log nor in the
// write that is being put together. Calls of that write itself are among them.
func (l *lane) pending() []session.Call {
	run, _ := l.state()
	var pending []session.Call
	for _, c := range run.Pending {
		if !l.settles(c.ID) {
			pending = append(pending, c)
		}
	}
	for _, e := range l.joined {
		if d, ok := e.Data.(*event.ToolCall); ok && e.Scope == l.scope && !l.settles(e.ID) { // else a child's, which ends in the same write
			pending = append(pending, session.Call{ID: e.ID, Name: d.Name})
		}
	}
	return pending
}

// settles reports whether the write that is being put together has the result
// of a call.
func (l *lane) settles(callID string) bool {
	return slices.ContainsFunc(l.joined, func(e *event.Event) bool {
		_, ok := e.Data.(*event.ToolResult)
		return ok && e.ID == callID
	})
}

// answerPending gives every call that still waits for a result one, in the
// write that is being put together; calls that are to be left out are, if there are any.
func (l *lane) answerPending(run session.Run, message string, leave func(session.Call) bool) {
	for _, c := range l.pending() {
		if leave != nil && leave(c) {
			continue
		}
		e := &event.Event{ID: c.ID, Data: &event.ToolResult{Name: c.Name, Output: event.EncodeJSON(message), IsError: true}}
		l.joined = append(l.joined, l.stamp(run, e))
	}
}

// awaits reports whether a call of this id waits for its result.
func (l *lane) awaits(id string) bool {
	for i := len(l.joined) - 1; i >= 0; i-- {
		if e := l.joined[i]; e.ID == id {
			_, isCall := e.Data.(*event.ToolCall)
			return isCall
		}
	}
	run, _ := l.state()
	return slices.ContainsFunc(run.Pending, func(c session.Call) bool { return c.ID == id })
}

func errorCode(err error) string { return cmp.Or(agent.ErrorCode(err), "agent_error") }
