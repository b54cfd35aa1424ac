package runner

import (
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Models read these texts as the results of calls that got none.
const (
	interrupted = "interrupted; outcome unknown"
	withdrawn   = "withdrawn: the user went on"
	needless    = "withdrawn: nothing waits for it any more"
)

// eventOf returns an event of a run in a scope.
func eventOf(run *session.Run, scope string, d event.Data) *event.Event {
	return &event.Event{TurnID: run.TurnID, RunID: run.ID, Scope: scope, Agent: run.Agent, Path: run.Path, Data: d}
}

// siblingEvent returns another event of the run that start opens.
func siblingEvent(start *event.Event, d event.Data) *event.Event {
	return &event.Event{TurnID: start.TurnID, RunID: start.RunID, Scope: start.Scope, Agent: start.Agent, Path: start.Path, Data: d}
}

// endNode returns the parent id of events that follow the end of a run.
func endNode(runID string) string { return runID + ":harness_end" }

// closer creates the events that close runs which are open or wait. In a fork it leaves the runs of the other session
// alone.
type closer struct {
	fold     *session.Fold
	lease    session.Lease
	unstored *unstored
}

// ofOtherSession reports whether a run belongs to the session that this fork was taken from. A fork writes no events to
// such a run.
func ofOtherSession(lease session.Lease, run *session.Run) bool {
	return lease.Fork && run.Start <= lease.Shared
}

// closing adds the events that close all inner scopes of an unfinished turn, and then the conversation's run, which is
// open or waits. Message is the result of the calls that were running.
func (c closer) closing(events []*event.Event, message string) []*event.Event {
	for _, scope := range slices.Backward(c.fold.Scopes.Names()) {
		events = c.closeScope(events, scope, message)
	}
	if c.fold.Scope("").Run.Open || c.fold.Held() {
		events = c.closeScope(events, "", message)
	}
	return events
}

// withdraw returns the events that withdraw everything that a turn waits for, after the agent of the run was removed
// from the tree.
func (c closer) withdraw(run *session.Run) []*event.Event {
	var events []*event.Event
	for _, scope := range slices.Backward(c.fold.Scopes.Names()) {
		events = c.closeScope(events, scope, needless)
	}
	return c.closeScope(events, "", fmt.Sprintf("not executed: the agent %s is no longer in the tree", run.Agent))
}

// closeScope adds the events that close a scope: results for the pending calls, a discard for deltas that were shown,
// and the end of its run. The calls of a paused run are withdrawn; the log or events may contain the pause.
func (c closer) closeScope(events []*event.Event, scope, message string) []*event.Event {
	run := &c.fold.Scope(scope).Run
	if scope != "" && ofOtherSession(c.lease, run) {
		return events
	}
	pending, open := slices.Clone(run.Pending), run.Open
	for _, e := range events {
		if e.Scope != scope || e.RunID != run.ID {
			continue
		}
		switch d := e.Data.(type) {
		case *event.ToolCall:
			pending = append(pending, session.Call{ID: e.ID, Name: d.Name})
		case *event.HarnessEnd:
			open = false
		}
	}
	for _, call := range pending {
		if answeredIn(events, call.ID) {
			continue
		}
		text := message
		if message == interrupted && (call.Open() || !open) { // the call waits for an approval, and has not run
			text = withdrawn
		}
		// appendEvents moves the result to the run that made the call.
		e := eventOf(run, scope, &event.ToolResult{Name: call.Name, Output: event.EncodeJSON(text), IsError: true})
		e.ID = call.ID
		events = append(events, e)
	}
	if !open {
		return events
	}
	if discard := c.unstored.discardUnfinished(scope, events, "canceled", notCompleted); discard != nil {
		events = append(events, eventOf(run, scope, discard))
	}
	return append(events, eventOf(run, scope, &event.HarnessEnd{AgentID: run.AgentID, FinishReason: event.FinishReasonCanceled}))
}

// ordered returns the events of a write so that the log stays valid. It adds events that close inner scopes before the
// run ends or the call gets its result that contains them. It drops events of a run that has ended, in the log or in
// this write.
func (c closer) ordered(events []*event.Event) []*event.Event {
	var ended []string     // ids of runs
	run, open := "", false // the run of the last event in an inner scope, and whether it takes more events
	gone := false          // the last event in an inner scope was dropped
	out := make([]*event.Event, 0, len(events))
	for i, e := range events {
		if e.Scope != "" {
			if _, ok := e.Data.(*event.HarnessStart); ok {
				run, open = e.RunID, !gone || e.ParentID != endNode(run) // else a transfer that was dropped starts it
			} else if e.RunID != run {
				run, open = e.RunID, !slices.Contains(ended, e.RunID) && (c.fold.Scopes.Runs(e.Scope, e.RunID) || startsIn(events[:i], e.RunID))
			}
			if gone = !open; gone {
				continue
			}
		}
		before := len(out)
		out = c.closeBefore(out, e)
		for _, e := range out[before:] {
			if _, over := e.Data.(*event.HarnessEnd); over {
				ended, run = append(ended, e.RunID), "" // the write may have more events of that run
			}
		}
		out = append(out, e)
		if end, ok := e.Data.(*event.HarnessEnd); ok && e.Scope != "" && end.FinishReason != event.FinishReasonInputRequired {
			ended, open = append(ended, e.RunID), false
		}
	}
	return out
}

func startsIn(events []*event.Event, run string) bool {
	return slices.ContainsFunc(events, func(e *event.Event) bool {
		_, ok := e.Data.(*event.HarnessStart)
		return ok && e.RunID == run
	})
}

// closeBefore adds the events that close all scopes inside the run or call that e ends. If e ends a run that keeps
// waiting, scopes that wait stay.
func (c closer) closeBefore(before []*event.Event, e *event.Event) []*event.Event {
	switch d := e.Data.(type) {
	case *event.Route: // its transfer and the end of its run follow at once
		return c.closeInRun(before, e, false)
	case *event.Transfer: // the end of its run follows at once
		if d.Outcome == event.TransferCommitted {
			return c.closeInRun(before, e, false)
		}
	case *event.HarnessEnd:
		return c.closeInRun(before, e, d.FinishReason == event.FinishReasonInputRequired)
	case *event.ToolResult:
		if c.openInside(before, e.ID) > 0 {
			return c.closeInside(before, &session.Run{Pending: []session.Call{{ID: e.ID}}}, false)
		}
	}
	return before
}

// closeInRun adds the events that close all scopes inside the run of e, if it is the current run of its scope.
func (c closer) closeInRun(before []*event.Event, e *event.Event, waits bool) []*event.Event {
	f := c.fold
	run := &f.Scope(e.Scope).Run
	if run.ID != e.RunID {
		return before
	}
	for k := -1; k < len(run.Before); k++ {
		opener := run.ID
		if k >= 0 {
			opener = run.Before[k]
		}
		if c.openInside(before, opener) > 0 {
			return c.closeInside(before, run, waits)
		}
	}
	for i := range run.Pending { // scopes of a waiting call may still run
		if waits && f.Scopes.Inside(run.Pending[i].ID) > 0 {
			return c.closeInside(before, run, true)
		}
	}
	return before
}

// openInside returns the number of scopes that a run or call has opened, without those that events end.
func (c closer) openInside(events []*event.Event, opener string) int {
	n := c.fold.Scopes.Inside(opener)
	if n == 0 {
		return 0
	}
	for _, e := range events {
		if d, ok := e.Data.(*event.HarnessEnd); ok && d.FinishReason != event.FinishReasonInputRequired && c.fold.Scopes.Opener(e.Scope) == opener {
			n--
		}
	}
	return n
}

// closeInside adds the events that close all scopes inside a run: those that it has opened, as a workflow or by pending
// calls, and those inside them. It also withdraws what waits there, unless waits is true. It adds nothing for runs that
// events end already. The caller holds mu.
func (c closer) closeInside(events []*event.Event, run *session.Run, waits bool) []*event.Event {
	within := make(map[string]bool)
	note := func(id string) { within[id] = true }
	run.Opens(note)
	f := c.fold
	var scopes []toClose
	for _, scope := range f.Scopes.Names() { // outer scopes come before inner ones
		if !within[f.Scopes.Opener(scope)] {
			continue
		}
		inner := &f.Scope(scope).Run
		inner.Opens(note)
		end := endIn(events, inner.ID)
		paused := inner.Waits() || inner.Open && end != nil && end.FinishReason == event.FinishReasonInputRequired
		switch {
		case inner.Open && end == nil:
			scopes = append(scopes, toClose{scope, interrupted})
		case paused && !waits:
			scopes = append(scopes, toClose{scope, needless})
		}
	}
	for _, one := range slices.Backward(scopes) {
		events = c.closeScope(events, one.scope, one.message)
	}
	return events
}

// toClose is a scope to close, and the result of its pending calls.
type toClose struct{ scope, message string }

// endIn returns the end of a run among the events, nil if they do not end it.
func endIn(events []*event.Event, run string) *event.HarnessEnd {
	for _, e := range events {
		if d, ok := e.Data.(*event.HarnessEnd); ok && e.RunID == run {
			return d
		}
	}
	return nil
}

func answeredIn(events []*event.Event, call string) bool {
	return slices.ContainsFunc(events, func(e *event.Event) bool {
		_, ok := e.Data.(*event.ToolResult)
		return ok && e.ID == call
	})
}
