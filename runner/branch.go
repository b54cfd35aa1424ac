package runner

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// branches reports whether the session is a fork that was taken in the middle of a run, or
// while a run waited, and whether nothing was stored in the fork since.
func (t *turn) branches() bool {
	f := t.fold()
	return t.lease.Fork && t.lease.Shared == f.Seq && (f.Scope("").Run.Open || f.Held())
}

// branchOff opens a run of its own in such a fork. The new run resumes the work of the other
// run, which is not changed. So no run is written to in two sessions, and a
// conversation's forks make one graph. The events are stored in the same write: those of
// the run that is open or waits as the new run's.
func (t *turn) branchOff(events ...*event.Event) error {
	if !t.branches() {
		return t.appendEvents(t.ctx, events)
	}
	took := t.resumeRun("")
	for _, e := range events {
		if e.Scope == "" {
			e.RunID = took[0].RunID
		}
	}
	return t.appendEvents(t.ctx, append(took, events...))
}

// resumeRun returns the events that open a run. The new run resumes the run that is open or waits
// in a scope.
func (t *turn) resumeRun(scope string) []*event.Event {
	s := t.fold().Scope(scope)
	start := t.startAgain(&s.Run, scope, s.LastNode())
	notice := &event.Notice{Code: event.NoticeForked, Message: fmt.Sprintf("the fork continues from position %d", t.lease.Shared)}
	return []*event.Event{start, alsoOf(start, notice)}
}

// startAgain makes the event that opens a run which continues another one of its agent.
func (t *turn) startAgain(run *session.Run, scope, parentID string) *event.Event {
	e := eventOf(run, scope, &event.HarnessStart{AgentID: run.AgentID})
	e.RunID, e.ParentID = t.newID(), parentID
	return e
}

// resumeInner returns the events that resume an unfinished inner scope. It returns no events if again is true: the run
// of the scope was cut off and is still open. If ok is false, the scope still waits. The caller holds mu.
func (t *turn) resumeInner(scope string) (events []*event.Event, again, ok bool) {
	run := &t.fold().Scope(scope).Run
	switch past := ofOtherSession(t.lease, run); {
	case !t.fold().Scopes.CanContinue(scope):
		return nil, false, false
	case past && (run.Open || run.Waits()):
		return t.resumeRun(scope), run.Open, true
	case run.Waits():
		return []*event.Event{t.startAgain(run, scope, endNode(run.ID))}, false, true
	}
	return nil, run.Open && run.Start <= t.lease.Head.Seq, true
}

// startEvent makes the event that opens a run.
func (t *turn) startEvent(n *agent.Node, turnID, parentID, scope string, input []byte) *event.Event {
	data := &event.HarnessStart{AgentID: n.Agent.Name(), Input: input}
	return &event.Event{TurnID: turnID, RunID: t.newID(), Scope: scope, ParentID: parentID, Agent: n.Agent.Name(), Path: n.Path, Data: data}
}

// startAnswer starts the agent that answers a user event.
func (t *turn) startAnswer(events []*event.Event, turnID, userRunID string) []*event.Event {
	n, missing := t.r.activeNode(t.fold())
	start := t.startEvent(n, turnID, userRunID+":user", "", nil)
	if missing {
		notice := &event.Notice{Code: "agent_gone", Message: fmt.Sprintf("the agent %q is no longer in the tree: %s answers", t.fold().Scope("").Active, n.Agent.Name())}
		events = append(events, &event.Event{TurnID: turnID, RunID: userRunID, Agent: "user", Data: notice})
	}
	return append(events, start)
}
