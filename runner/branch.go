package runner

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
)

// branches reports whether the session is a fork that was taken in the middle of a
// run, or where one waits for approvals, and that nothing was stored in since.
func (t *turn) branches() bool {
	f := &t.w.fold
	return t.lease.Fork && t.lease.Shared == f.Seq && (f.Scope("").Run.Open || f.Paused())
}

// branch opens a run of its own in such a fork: the new run takes up what the other
// left, which stays as it is. So no run is written to in two sessions, and a
// conversation's forks make one graph. The events, of the run that is open or waits,
// are stored in the same write, in a fork as the new run's.
func (t *turn) branch(events ...*agent.Event) error {
	if !t.branches() {
		return t.append(t.ctx, events)
	}
	run := &t.w.fold.Scope("").Run
	start := &agent.Event{TurnID: run.TurnID, RunID: t.newID(), ParentID: t.w.fold.Scope("").LastNode(), Agent: run.Agent, Path: run.Path,
		Data: &agent.HarnessStart{AgentID: run.AgentID}}
	notice := *start
	notice.ParentID = ""
	notice.Data = &agent.Notice{Code: agent.NoticeForked, Message: fmt.Sprintf("the fork goes on from position %d", t.lease.Shared)}
	for _, e := range events {
		e.RunID = start.RunID
	}
	return t.append(t.ctx, append([]*agent.Event{start, &notice}, events...))
}
