package runner

import (
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// cancelRemote cancels remote tasks of agents, all at once because a peer may not answer. An error of one does not stop
// the others. It returns the events of open inner scopes, and the payloads to store in the conversation.
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
		wg.Go(func() { recorded[i] = t.cancelTask(r) })
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

// cancelTask asks the agents that may have begun a remote task to cancel it. It returns the payloads to store.
func (t *turn) cancelTask(r session.Remote) (payloads []event.Data) {
	agents := t.remoteAgents(r)
	if len(agents) == 0 {
		t.r.logger.Warn("the task of a remote agent cannot be canceled: the agent that began it is not in the tree", "agent", r.Agent, "task", r.TaskID)
		return nil
	}
	params := agent.InvocationParams{Session: &t.turnSession, TurnID: r.TurnID, RunID: r.RunID, Scope: r.Scope, Since: r.Since}
	if r.Scope != "" {
		params.Session = &scopeSession{turnSession: &t.turnSession, after: max(0, r.First-1)}
	}
	for _, a := range agents {
		params.Tree = a.tree
		data, err := t.askCanceler(a.node, params)
		if err != nil {
			t.r.logger.Error("the task of a remote agent could not be canceled", "agent", r.Agent, "task", r.TaskID, "error", err)
		}
		if len(data) > 0 { // only one of several agents has the task
			payloads = data
		}
	}
	return payloads
}

// agentInTree is an agent in a tree, which may be that of an inner scope.
type agentInTree struct {
	node *agent.Node
	tree *agent.Tree
}

// remoteAgents returns the agents that may have begun a remote task, in tools and graphs too. There is none if the
// agent has left the tree, and more than one if the log does not say which agent of this name it was.
func (t *turn) remoteAgents(r session.Remote) (agents []agentInTree) {
	if r.Scope != "" && len(r.Way) == 0 {
		return nil
	}
	return agentsAt(t.r.tree, r.Way, r.Agent)
}

// agentsAt returns the agents with a name to which a way from the conversation leads.
func agentsAt(tree *agent.Tree, way []session.Hosted, name string) (agents []agentInTree) {
	trees := []*agent.Tree{tree}
	for _, step := range way {
		var inner []*agent.Tree
		for _, tree := range trees {
			if n := tree.Node(step.Agent); n != nil {
				inner = append(inner, n.Inner(step.Inner)...)
			}
		}
		trees = inner
	}
	for _, tree := range trees {
		if n := tree.Node(name); n != nil {
			agents = append(agents, agentInTree{n, tree})
		}
	}
	return agents
}

// askCanceler asks an agent to cancel what it waits for elsewhere, and returns the payloads to store.
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
	params.Node, params.Shared, params.NewID, params.Logger = n, t.lease.Shared, t.newID, t.r.logger
	return c.Cancel(t.ctx, agent.NewInvocation(params))
}
