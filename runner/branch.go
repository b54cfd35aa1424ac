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
	if t.w.wrote || !run.Open && !t.w.fold.Paused() {
		return nil
	}
	infos, err := t.r.store.List(t.ctx, t.w.key)
	if err != nil {
		return err
	}
	if len(infos) != 1 || infos[0].ParentSeq != t.w.fold.Seq {
		return nil // it is no fork, or has gone on since
	}
	of := "a session that was deleted"
	if infos[0].Parent.ID != "" {
		of = "session " + infos[0].Parent.String()
	}
	start := &agent.Event{TurnID: run.TurnID, RunID: t.newID(), ParentID: t.w.fold.Scope("").LastNode(), Agent: run.Agent, Path: run.Path,
		Data: &agent.HarnessStart{AgentID: run.Agent}}
	notice := *start
	notice.ParentID = ""
	notice.Data = &agent.Notice{Code: agent.NoticeForked, Message: fmt.Sprintf("this goes on from position %d of %s", infos[0].ParentSeq, of)}
	return t.append(t.ctx, []*agent.Event{start, &notice})
}
