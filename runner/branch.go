package runner

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
)

// branch opens a run of its own in a fork that was taken in the middle of one, or
// where one waits for approvals: the new run takes up what that one left, which
// stays as it is. So no run is written to in two sessions, and a conversation's
// forks make one graph.
func (t *turn) branch() error {
	run := &t.w.fold.Scope("").Run
	if !t.lease.Fork || t.lease.Shared != t.w.fold.Seq || !run.Open && !t.w.fold.Paused() {
		return nil // it is no fork, has gone on since, or nothing is open
	}
	start := &agent.Event{TurnID: run.TurnID, RunID: t.newID(), ParentID: t.w.fold.Scope("").LastNode(), Agent: run.Agent, Path: run.Path,
		Data: &agent.HarnessStart{AgentID: run.Agent}}
	notice := *start
	notice.ParentID = ""
	notice.Data = &agent.Notice{Code: agent.NoticeForked, Message: fmt.Sprintf("the fork goes on from position %d", t.lease.Shared)}
	return t.append(t.ctx, []*agent.Event{start, &notice})
}
