package runner

import (
	"fmt"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
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
func (t *turn) branch(events ...*event.Event) error {
	if !t.branches() {
		return t.append(t.ctx, events)
	}
	took := t.takeUp("")
	for _, e := range events {
		e.RunID = took[0].RunID
	}
	return t.append(t.ctx, append(took, events...))
}

// takeUp makes the events that open a run which takes up the one that is open in a
// scope, or waits there.
func (t *turn) takeUp(scope string) []*event.Event {
	s := t.w.fold.Scope(scope)
	run := &s.Run
	start := &event.Event{TurnID: run.TurnID, RunID: t.newID(), Scope: scope, ParentID: s.LastNode(), Agent: run.Agent, Path: run.Path,
		Data: &event.HarnessStart{AgentID: run.AgentID}}
	notice := *start
	notice.ParentID = ""
	notice.Data = &event.Notice{Code: event.NoticeForked, Message: fmt.Sprintf("the fork goes on from position %d", t.lease.Shared)}
	return []*event.Event{start, &notice}
}

// past reports whether a run is of the session that this one is a fork of. Nothing is
// written to it here.
func (t *turn) past(run *session.Run) bool { return t.lease.Fork && run.Start <= t.lease.Shared }
