package runner

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// branches reports whether the session is a fork that was taken in the middle of a
// run, or where one waits for somebody, and that nothing was stored in since.
func (t *turn) branches() bool {
	f := &t.cached.fold
	return t.lease.Fork && t.lease.Shared == f.Seq && (f.Scope("").Run.Open || f.Held())
}

// branch opens a run of its own in such a fork: the new run takes up what the other
// left, which stays as it is. So no run is written to in two sessions, and a
// conversation's forks make one graph. The events are stored in the same write: those of
// the run that is open or waits as the new run's.
func (t *turn) branch(events ...*event.Event) error {
	if !t.branches() {
		return t.append(t.ctx, events)
	}
	took := t.takeUp("")
	for _, e := range events {
		if e.Scope == "" {
			e.RunID = took[0].RunID
		}
	}
	return t.append(t.ctx, append(took, events...))
}

// takeUp makes the events that open a run which takes up the one that is open in a
// scope, or waits there.
func (t *turn) takeUp(scope string) []*event.Event {
	s := t.cached.fold.Scope(scope)
	run := &s.Run
	start := &event.Event{TurnID: run.TurnID, RunID: t.newID(), Scope: scope, ParentID: s.LastNode(), Agent: run.Agent, Path: run.Path,
		Data: &event.HarnessStart{AgentID: run.AgentID}}
	notice := *start
	notice.ParentID = ""
	notice.Data = &event.Notice{Code: event.NoticeForked, Message: fmt.Sprintf("the fork goes on from position %d", t.lease.Shared)}
	return []*event.Event{start, &notice}
}

// goOn makes the events by which an inner scope that is not over goes on here: those that
// open a run, or none if it has one that was cut off, which again reports. It reports ok if
// there is anything to do; else the scope waits as before. The caller holds mu.
func (t *turn) goOn(scope string) (events []*event.Event, again, ok bool) {
	run := &t.cached.fold.Scope(scope).Run
	switch past := past(t.lease, run); {
	case !t.cached.fold.GoesOn(scope):
		return nil, false, false
	case past && (run.Open || run.Waits()):
		return t.takeUp(scope), run.Open, true
	case run.Waits():
		return []*event.Event{{TurnID: run.TurnID, RunID: t.newID(), Scope: scope, ParentID: endNode(run.ID), Agent: run.Agent, Path: run.Path,
			Data: &event.HarnessStart{AgentID: run.AgentID}}}, false, true
	}
	return nil, run.Open && run.Start <= t.lease.Head.Seq, true
}

// start makes the event that opens a run.
func (t *turn) start(n *agent.Node, turnID, parentID, scope string, input []byte) *event.Event {
	data := &event.HarnessStart{AgentID: n.Agent.Name(), Input: input}
	return &event.Event{TurnID: turnID, RunID: t.newID(), Scope: scope, ParentID: parentID, Agent: n.Agent.Name(), Path: n.Path, Data: data}
}

func endNode(runID string) string { return runID + ":harness_end" }

// answer starts the agent that answers a user event.
func (t *turn) answer(events []*event.Event, turnID, userRunID string) []*event.Event {
	n, missing := t.r.active(&t.cached.fold)
	if missing {
		events = append(events, &event.Event{TurnID: turnID, RunID: userRunID, Agent: "user", Data: &event.Notice{Code: "agent_gone",
			Message: fmt.Sprintf("the agent %q is no longer in the tree: %s answers", t.cached.fold.Scope("").Active, n.Agent.Name())}})
	}
	return append(events, t.start(n, turnID, userRunID+":user", "", nil))
}
