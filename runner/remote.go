package runner

import (
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// cancelRemote cancels tasks that agents have at remote ones. It returns the events for
// scopes that are open, and the rest for the conversation. All are cancelled at once, since
// each may have to wait for a peer that does not answer. An error of one does not stop the
// others.
func (t *turn) cancelRemote(which func(session.Remote) bool) (inner []*event.Event, rest []event.Data) {
	var tasks []session.Remote
	for _, r := range t.fold().Remote {
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
		agents := t.remoteAgents(r)
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
				data, err := t.askCanceler(a.node, params)
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
		run := &t.fold().Scope(r.Scope).Run
		for _, d := range recorded[i] {
			if r.Scope != "" && run.Open && !ofOtherSession(t.lease, run) {
				inner = append(inner, eventOf(run, r.Scope, d))
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

// remoteAgents finds the agent of a remote task, wherever agents run it: none if it is not there
// any more, and several if the log does not say which of one name it was.
func (t *turn) remoteAgents(r session.Remote) (agents []placed) {
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

// askCanceler asks an agent to give up what it has waiting elsewhere, and returns what is to be
// recorded of that.
func (t *turn) askCanceler(n *agent.Node, params agent.InvocationParams) (data []event.Data, failed error) {
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
