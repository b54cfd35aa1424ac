package runner

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// branches reports whether the session is a fork of a session in which a run was open or waited, and in which nothing
// was stored since.
func (t *turn) branches() bool {
	f := t.fold()
	return t.lease.Fork && t.lease.Shared == f.Seq && (f.Scope("").Run.Open || f.Held())
}

// branchOff stores events. In such a fork, the same write first opens a new run, which resumes the other session's run,
// and the conversation's events become events of the new run. So no run has events from two sessions, and the forks of
// a conversation form one graph.
func (t *turn) branchOff(events ...*event.Event) error {
	if !t.branches() {
		return t.appendEvents(t.ctx, events)
	}
	resumed := t.resumeRun("")
	for _, e := range events {
		if e.Scope == "" {
			e.RunID = resumed[0].RunID
		}
	}
	return t.appendEvents(t.ctx, append(resumed, events...))
}

// resumeRun returns the events that open a run in a fork. The new run resumes the run that is open or waits in a scope.
func (t *turn) resumeRun(scope string) []*event.Event {
	s := t.fold().Scope(scope)
	start := t.resumingStart(&s.Run, scope, s.LastNode())
	notice := &event.Notice{Code: event.NoticeForked, Message: fmt.Sprintf("the fork continues from position %d", t.lease.Shared)}
	return []*event.Event{start, siblingEvent(start, notice)}
}

// resumingStart returns the start of a run that resumes another run of its agent.
func (t *turn) resumingStart(run *session.Run, scope, parentID string) *event.Event {
	e := eventOf(run, scope, &event.HarnessStart{AgentID: run.AgentID})
	e.RunID, e.ParentID = t.newID(), parentID
	return e
}

// resumeInner returns the events that resume an unfinished inner scope. It returns no events if again is true: the run
// of the scope was cut off and is still open. If ok is false, the scope still waits. The caller holds mu.
func (t *turn) resumeInner(scope string) (events []*event.Event, again, ok bool) {
	run := &t.fold().Scope(scope).Run
	switch shared := ofOtherSession(t.lease, run); {
	case !t.fold().Scopes.CanContinue(scope):
		return nil, false, false
	case shared && (run.Open || run.Waits()):
		return t.resumeRun(scope), run.Open, true
	case run.Waits():
		return []*event.Event{t.resumingStart(run, scope, endNode(run.ID))}, false, true
	}
	return nil, run.Open && run.Start <= t.lease.Head.Seq, true
}

// startEvent returns the start of a run.
func (t *turn) startEvent(n *agent.Node, turnID, parentID, scope string, input []byte) *event.Event {
	data := &event.HarnessStart{AgentID: n.Agent.Name(), Input: input}
	return &event.Event{TurnID: turnID, RunID: t.newID(), Scope: scope, ParentID: parentID, Agent: n.Agent.Name(), Path: n.Path, Data: data}
}

// startAnswer appends the start of the agent that answers the user. If the log names an agent that is no longer in the
// tree, a notice comes first.
func (t *turn) startAnswer(events []*event.Event, turnID, userRunID string) []*event.Event {
	n, missing := t.r.activeNode(t.fold())
	start := t.startEvent(n, turnID, userRunID+":user", "", nil)
	if missing {
		notice := &event.Notice{Code: "agent_gone", Message: fmt.Sprintf("the agent %q is no longer in the tree: %s answers", t.fold().Scope("").Active, n.Agent.Name())}
		events = append(events, &event.Event{TurnID: turnID, RunID: userRunID, Agent: "user", Data: notice})
	}
	return append(events, start)
}
