package runner

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// cancelTurn stores the events that close what is open. If no run is open, it opens one for them.
func (t *opening) cancelTurn() error {
	if err := t.branchOff(); err != nil {
		return err
	}
	f := t.fold()
	run := f.Scope("").Run // a copy: the fold changes with each write
	current := run.TurnID == f.Turn.ID
	n := t.r.tree.Node(run.Agent)
	var waiting []event.Data // the payloads about what the agent waits for elsewhere
	if n != nil && current {
		var err error
		params := agent.InvocationParams{Tree: t.r.tree, Session: &t.turnSession, TurnID: run.TurnID, RunID: run.ID, Since: run.Since}
		if waiting, err = t.askCanceler(n, params); err != nil {
			return err
		}
	}
	if !f.Unfinished() && !f.Held() && len(waiting) == 0 {
		return nil
	}
	inner, rest := t.cancelRemote(func(r session.Remote) bool { return r.Scope != "" || r.Agent != run.Agent || !current })
	closing := t.closer().closing(nil, interrupted)
	if run.Open && current {
		end := len(closing) - 1
		events := append(inner, closing[:end]...)
		for _, d := range append(waiting, rest...) {
			events = append(events, eventOf(&run, "", d))
		}
		return t.appendEvents(t.ctx, append(events, closing[end]))
	}
	events := append(inner, closing...) // of inner scopes, and of calls that wait
	parent := endNode(run.ID)
	switch {
	case !current: // no agent has begun to answer
		n, _ = t.r.activeNode(f)
		parent = f.Turn.UserRunID + ":user"
	case run.Finish == event.FinishReasonTransfer:
		n = t.r.tree.Node(run.Target)
	}
	if n == nil {
		n = t.r.tree.Root()
	}
	start := t.startEvent(n, f.Turn.ID, parent, "", nil)
	events = append(events, start)
	for _, d := range waiting { // they belong to the run before
		e := eventOf(&run, "", d)
		e.RunID = start.RunID
		events = append(events, e)
	}
	for _, d := range append(rest, &event.HarnessEnd{AgentID: n.Agent.Name(), FinishReason: event.FinishReasonCanceled}) {
		events = append(events, siblingEvent(start, d))
	}
	return t.appendEvents(t.ctx, events)
}
