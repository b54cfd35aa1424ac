package runner

import (
	"context"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Cancel ends the session's last turn if it was cut off or waits for something: it cannot
// be resumed after that. Calls without a result are answered, approvals that nobody gave
// are withdrawn, and the runs end as canceled. An agent.Canceler cancels what it has
// waiting elsewhere. That is done for the agent that answered last, and for each that has
// a task at a remote agent which is not over by the log, also inside of tools and of
// graphs. All of it is one write, whose events are returned. A turn that is over is left
// as it is, unless its agent has something waiting elsewhere. A turn that runs is not
// stopped: the error is agent.ErrSessionBusy. Whoever runs it cancels its context first.
// Of the options, [At] makes sure that it is the turn that was meant.
func (r *Runner) Cancel(ctx context.Context, key session.Key, opts ...TurnOption) ([]*event.Event, error) {
	if err := session.CheckKey(key); err != nil {
		return nil, err
	}
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	begin := func(t *opening) error {
		if err := t.expect(o); err != nil {
			return err
		}
		return t.giveUp()
	}
	return r.collect(ctx, key, nil, begin, func(*scope) error { return nil })
}

// giveUp closes what is open, opening a run first where none is.
func (t *opening) giveUp() error {
	if err := t.branch(); err != nil {
		return err
	}
	f := &t.cached.fold
	run := f.Scope("").Run // a copy: the fold changes with each write
	var elsewhere []*event.Event
	if n := t.r.tree.Node(run.Agent); n != nil && run.TurnID == f.Turn.ID {
		data, err := t.ask(n, agent.InvocationParams{Tree: t.r.tree, Session: &t.turnSession, TurnID: run.TurnID, RunID: run.ID, Since: run.Since})
		if err != nil {
			return err
		}
		for _, d := range data {
			elsewhere = append(elsewhere, &event.Event{TurnID: run.TurnID, RunID: run.ID, Agent: run.Agent, Path: run.Path, Data: d})
		}
	}
	if !f.Unfinished() && !f.Held() && len(elsewhere) == 0 {
		return nil
	}
	inner, rest := t.cancelRemote(func(r session.Remote) bool {
		return r.Scope != "" || r.Agent != run.Agent || run.TurnID != f.Turn.ID
	})
	if run.Open && run.TurnID == f.Turn.ID {
		for _, d := range rest {
			elsewhere = append(elsewhere, &event.Event{TurnID: run.TurnID, RunID: run.ID, Agent: run.Agent, Path: run.Path, Data: d})
		}
		events := append(inner, t.closer().closing(interrupted)...)
		end := len(events) - 1
		return t.append(t.ctx, append(events[:end:end], append(elsewhere, events[end])...))
	}
	events := append(inner, t.closer().closing(interrupted)...) // of inner scopes
	n, parent := t.r.tree.Node(run.Agent), endNode(run.ID)
	switch {
	case run.TurnID != f.Turn.ID: // nobody has begun to answer
		n, _ = t.r.active(f)
		parent = f.Turn.UserRunID + ":user"
	case run.Finish == event.FinishReasonTransfer:
		n = t.r.tree.Node(run.Target)
	}
	if n == nil {
		n = t.r.tree.Root()
	}
	start := t.start(n, f.Turn.ID, parent, "", nil)
	events = append(events, start)
	closed := *start
	closed.ParentID = ""
	if f.Held() {
		for _, c := range run.Pending {
			e := closed
			e.ID, e.Data = c.ID, &event.ToolResult{Name: c.Name, Output: event.EncodeJSON(withdrawn), IsError: true}
			events = append(events, &e)
		}
	}
	for _, e := range elsewhere {
		e.RunID = start.RunID
		events = append(events, e)
	}
	for _, d := range rest {
		e := closed
		e.Data = d
		events = append(events, &e)
	}
	end := closed
	end.Data = &event.HarnessEnd{AgentID: n.Agent.Name(), FinishReason: event.FinishReasonCanceled}
	return t.append(t.ctx, append(events, &end))
}

// cancelRemote cancels tasks that agents have at remote ones. It returns the events for
// scopes that are open, and the rest for the conversation. All are cancelled at once, since
// each may have to wait for a peer that does not answer. An error of one does not stop the
// others.
func (t *opening) cancelRemote(which func(session.Remote) bool) (inner []*event.Event, rest []event.Data) {
	var tasks []session.Remote
	for _, r := range t.cached.fold.Remote {
		if which(r) {
			tasks = append(tasks, r)
		}
	}
	if len(tasks) == 0 {
		return nil, nil
	}
	recorded := make([][]event.Data, len(tasks))
	var wg sync.WaitGroup
	for i, r := range tasks {
		agents := t.hosted(r)
		if len(agents) == 0 {
			t.r.logger.Warn("the task of a remote agent cannot be canceled: the agent that began it is not in the tree", "agent", r.Agent, "task", r.TaskID)
			continue
		}
		params := agent.InvocationParams{Session: &t.turnSession, TurnID: r.TurnID, RunID: r.RunID, Scope: r.Scope, Since: r.Since}
		if r.Scope != "" {
			params.Session = &scopeSession{turnSession: &t.turnSession, after: max(0, r.First-1)}
		}
		wg.Go(func() {
			for _, a := range agents {
				params.Tree = a.tree
				data, err := t.ask(a.node, params)
				if err != nil {
					t.r.logger.Error("the task of a remote agent could not be canceled", "agent", r.Agent, "task", r.TaskID, "error", err)
				}
				if len(data) > 0 { // of several that may be meant, one says it
					recorded[i] = data
				}
			}
		})
	}
	wg.Wait()
	for i, r := range tasks {
		run := &t.cached.fold.Scope(r.Scope).Run
		for _, d := range recorded[i] {
			if r.Scope != "" && run.Open && !past(t.lease, run) {
				inner = append(inner, &event.Event{TurnID: run.TurnID, RunID: run.ID, Scope: r.Scope, Agent: run.Agent, Path: run.Path, Data: d})
			} else {
				rest = append(rest, d)
			}
		}
	}
	return inner, rest
}

// placed is an agent in a tree, which may be that of an inner scope.
type placed struct {
	node *agent.Node
	tree *agent.Tree
}

// hosted finds the agent of a remote task, wherever agents run it: none if it is not there
// any more, and several if the log does not say which of one name it was.
func (t *opening) hosted(r session.Remote) (agents []placed) {
	if r.Scope != "" && len(r.Way) == 0 {
		return nil
	}
	trees := []*agent.Tree{t.r.tree}
	for _, step := range r.Way {
		var inner []*agent.Tree
		for _, tree := range trees {
			if n := tree.Node(step.Agent); n != nil {
				inner = append(inner, n.Inner(step.Inner)...)
			}
		}
		trees = inner
	}
	for _, tree := range trees {
		if n := tree.Node(r.Agent); n != nil {
			agents = append(agents, placed{n, tree})
		}
	}
	return agents
}

// ask asks an agent to give up what it has waiting elsewhere, and returns what is to be
// recorded of that.
func (t *opening) ask(n *agent.Node, params agent.InvocationParams) (data []event.Data, failed error) {
	c, ok := agent.As[agent.Canceler](n.Agent)
	if !ok {
		return nil, nil
	}
	name := n.Agent.Name()
	defer func() {
		if p := recover(); p != nil {
			failed = t.r.panicked("an agent", name, p)
		}
	}()
	params.Node, params.NewID, params.Logger = n, t.newID, t.r.logger
	return c.Cancel(t.ctx, agent.NewInvocation(params))
}
