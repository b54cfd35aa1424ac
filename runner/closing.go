package runner

import (
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// What models read as the result of calls that got none.
const (
	interrupted = "interrupted; outcome unknown"
	withdrawn   = "withdrawn: the user went on"
	needless    = "withdrawn: nothing waits for it any more"
)

// eventOf makes an event of a run in a scope.
func eventOf(run *session.Run, scope string, d event.Data) *event.Event {
	return &event.Event{TurnID: run.TurnID, RunID: run.ID, Scope: scope, Agent: run.Agent, Path: run.Path, Data: d}
}

// alsoOf makes another event of the run that an event starts.
func alsoOf(start *event.Event, d event.Data) *event.Event {
	return &event.Event{TurnID: start.TurnID, RunID: start.RunID, Scope: start.Scope, Agent: start.Agent, Path: start.Path, Data: d}
}

func endNode(runID string) string { return runID + ":harness_end" }

// closer makes the events that end what is open in a log, or waits there.
type closer struct {
	fold  *session.Fold
	lease session.Lease // of a fork: what is of the other session is left as it is
	shown shownBlocks
}

// ofOtherSession reports whether a run is of the session that this one is a fork of. Nothing is
// written to it here.
func ofOtherSession(lease session.Lease, run *session.Run) bool {
	return lease.Fork && run.Start <= lease.Shared
}

// closing makes the events that end all that is open in an interrupted turn, or waits
// inside of it, the conversation's run last.
func (c closer) closing(message string) []*event.Event {
	var events []*event.Event
	for _, scope := range slices.Backward(c.fold.Scopes.Names()) {
		events = c.closeScope(events, scope, message)
	}
	if c.fold.Scope("").Run.Open {
		events = c.closeScope(events, "", message)
	}
	return events
}

// withdraw makes the events that give up what a turn waits for, as the agent that it
// waits for is no longer there.
func (c closer) withdraw(run *session.Run) []*event.Event {
	var events []*event.Event
	for _, scope := range slices.Backward(c.fold.Scopes.Names()) {
		events = c.closeScope(events, scope, needless)
	}
	return c.closeScope(events, "", fmt.Sprintf("not executed: the agent %s is no longer in the tree", run.Agent))
}

// closeScope adds to events what ends a scope: results for the calls that have none, and the end
// of its run. Of a run that is paused, in the log or by the events, the calls are withdrawn.
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
		if message == interrupted && (call.Open() || !open) { // it waits for an approval, and has not run
			text = withdrawn
		}
		// Of the run that is open or waits; the write gives it to the one that made the call.
		e := eventOf(run, scope, &event.ToolResult{Name: call.Name, Output: event.EncodeJSON(text), IsError: true})
		e.ID = call.ID
		events = append(events, e)
	}
	if !open {
		return events
	}
	if ids := c.shown.unfinished(scope, events); len(ids) > 0 {
		events = append(events, eventOf(run, scope, &event.Discard{Code: "canceled", Message: notCompleted, IDs: ids}))
	}
	return append(events, eventOf(run, scope, &event.HarnessEnd{AgentID: run.AgentID, FinishReason: event.FinishReasonCanceled}))
}

// ordered returns the events of a write in a form that obeys the laws of the log. Scopes
// close from the inside out: what is open inside of a run that ends, or of a call that
// gets its result, is closed before. A run ends once and has no events after that: events
// of a scope that was closed are left out. The ends that wait to be stored with other
// events are in the same write, or in one before.
func (c closer) ordered(events []*event.Event) []*event.Event {
	var ended []string // runs
	run, open := "", false
	gone := false // the event before was left out
	out := make([]*event.Event, 0, len(events))
	for i, e := range events {
		if e.Scope != "" {
			if _, ok := e.Data.(*event.HarnessStart); ok {
				run, open = e.RunID, !gone || e.ParentID != endNode(run) // by a transfer that was left out
			} else if e.RunID != run {
				run, open = e.RunID, !slices.Contains(ended, e.RunID) && (c.fold.Scopes.Runs(e.Scope, e.RunID) || startsIn(events[:i], e.RunID))
			}
			if gone = !open; gone {
				continue
			}
		}
		before := len(out)
		out = c.leftOpen(out, e)
		for _, e := range out[before:] {
			if _, over := e.Data.(*event.HarnessEnd); over {
				ended, run = append(ended, e.RunID), "" // of which there may be more to come
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

// leftOpen adds to the events before e the ends of what is open inside of what e ends, and
// withdraws what waits there, unless e is the end of a run that waits for it.
func (c closer) leftOpen(before []*event.Event, e *event.Event) []*event.Event {
	switch d := e.Data.(type) {
	case *event.Route: // which its transfer follows at once
		return c.leftOpenIn(before, e, false)
	case *event.Transfer: // which the end of its run follows at once
		if d.Outcome == event.TransferCommitted {
			return c.leftOpenIn(before, e, false)
		}
	case *event.HarnessEnd:
		return c.leftOpenIn(before, e, d.FinishReason == event.FinishReasonInputRequired)
	case *event.ToolResult:
		if c.openInside(before, e.ID) > 0 {
			return c.closeInside(before, &session.Run{Pending: []session.Call{{ID: e.ID}}}, false)
		}
	}
	return before
}

// leftOpenIn is leftOpen for what ends the run of e.
func (c closer) leftOpenIn(before []*event.Event, e *event.Event, waits bool) []*event.Event {
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
	for i := range run.Pending { // what still runs of a call that waits
		if waits && f.Scopes.Inside(run.Pending[i].ID) > 0 {
			return c.closeInside(before, run, true)
		}
	}
	return before
}

// openInside counts the scopes that something has opened, but those that events end.
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

// closeInside adds to events the ends of the runs that are open inside of a run: in the
// scopes that it has opened, as a workflow or by calls that have no result, and in those
// inside of them. What waits in these is withdrawn, unless the run waits for it. What is
// among the events already is not made again. The caller holds mu.
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

// toClose is a scope, and what the calls in it are answered.
type toClose struct{ scope, message string }

// endIn returns how events end a run, nil if they do not.
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
