package runner

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// Cancel ends the session's last turn for good if it was cut off or waits for
// something: calls without a result are answered, approvals that nobody gave are
// withdrawn, the runs end as canceled, and an agent.Canceler gives up what waits for
// it elsewhere; all in one write, whose events are returned. A turn that is over is
// left as it is, unless its agent has something waiting elsewhere. A turn that runs
// is not stopped: the error is agent.ErrSessionBusy. Whoever runs it cancels its
// context first. Of the options, [At] makes sure that it is the turn that was meant.
func (r *Runner) Cancel(ctx context.Context, key session.Key, opts ...TurnOption) ([]*agent.Event, error) {
	if err := session.CheckKey(key); err != nil {
		return nil, err
	}
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	begin := func(t *turn) error {
		if err := t.expect(o); err != nil {
			return err
		}
		return t.giveUp()
	}
	return r.collect(ctx, key, nil, begin, func(*lane) error { return nil })
}

// giveUp closes what is open, opening a run first where none is.
func (t *turn) giveUp() error {
	if err := t.branch(); err != nil {
		return err
	}
	f := &t.w.fold
	run := f.Scope("").Run // a copy: the fold changes with each write
	elsewhere, err := t.elsewhere(&run)
	if err != nil {
		return err
	}
	if run.Open && run.TurnID == f.Turn.ID {
		events := t.closing(interrupted)
		end := len(events) - 1
		return t.append(t.ctx, append(events[:end:end], append(elsewhere, events[end])...))
	}
	if !f.Unfinished() && !f.Paused() && !f.Waits() && len(elsewhere) == 0 {
		return nil
	}
	events := t.closing(interrupted) // of inner scopes
	n, parent := t.r.tree.Node(run.Agent), endNode(run.ID)
	switch {
	case run.TurnID != f.Turn.ID: // nobody has begun to answer
		n, _ = t.r.active(f)
		parent = f.Turn.UserRunID + ":user"
	case run.Finish == agent.FinishReasonTransfer:
		n = t.r.tree.Node(run.Target)
	}
	if n == nil {
		n = t.r.tree.Root()
	}
	start := t.start(n, f.Turn.ID, parent, "", nil)
	events = append(events, start)
	closed := *start
	closed.ParentID = ""
	if f.Paused() {
		for _, c := range run.Pending {
			e := closed
			e.ID, e.Data = c.ID, &agent.ToolResult{Name: c.Name, Output: agent.EncodeJSON(withdrawn), IsError: true}
			events = append(events, &e)
		}
	}
	for _, e := range elsewhere {
		e.RunID = start.RunID
		events = append(events, e)
	}
	end := closed
	end.Data = &agent.HarnessEnd{AgentID: n.Agent.Name(), FinishReason: agent.FinishReasonCanceled}
	return t.append(t.ctx, append(events, &end))
}

// elsewhere asks the run's agent to give up what it has waiting elsewhere, and
// returns what is to be recorded of that.
func (t *turn) elsewhere(run *session.Run) (events []*agent.Event, failed error) {
	n := t.r.tree.Node(run.Agent)
	if n == nil || run.TurnID != t.w.fold.Turn.ID {
		return nil, nil
	}
	c, ok := n.Agent.(agent.Canceler)
	if !ok {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			t.r.logger.Error("an agent panicked", "agent", run.Agent, "panic", p)
			failed = &agent.RunError{Agent: run.Agent, Code: agent.CodeInternal, Err: fmt.Errorf("internal error: %v", p)}
		}
	}()
	inv := agent.NewInvocation(agent.InvocationParams{Node: n, Tree: t.r.tree, Session: t, TurnID: run.TurnID, RunID: run.ID,
		Since: run.Since, NewID: t.newID, Logger: t.r.logger})
	data, err := c.Cancel(t.ctx, inv)
	if err != nil {
		return nil, err
	}
	for _, d := range data {
		events = append(events, &agent.Event{TurnID: run.TurnID, RunID: run.ID, Agent: run.Agent, Path: run.Path, Data: d})
	}
	return events, nil
}
