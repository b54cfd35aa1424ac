package runner

import (
	"fmt"

	"github.com/agentarbor/arbor/event"
)

// lookAgain opens a run that goes on where the last one ended to wait for something
// that is done elsewhere, in the conversation or inside of it. Only Resume does so, and Decide without decisions: engines that
// take a turn step by step see that it is over, as with one that waits for approvals.
func (t *turn) lookAgain() error {
	run := t.w.fold.Scope("").Run
	n := t.r.tree.Node(run.Agent)
	missing := n == nil
	if t.branches() { // what it waits for is the other session's, and so is its run
		if err := t.branch(); err != nil || !missing {
			return err
		}
		run = t.w.fold.Scope("").Run
	}
	var events []*event.Event
	if missing {
		n = t.r.tree.Root()
		events = t.withdraw(&run)
	}
	start := t.start(n, run.TurnID, endNode(run.ID), "", nil)
	events = append(events, start)
	if missing {
		notice := *start
		notice.ParentID = ""
		notice.Data = &event.Notice{Code: "agent_gone", Message: fmt.Sprintf("the agent %q is no longer in the tree: %s goes on", run.Agent, n.Agent.Name())}
		events = append(events, &notice)
	}
	return t.append(t.ctx, events)
}
