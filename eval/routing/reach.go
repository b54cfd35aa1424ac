package routing

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/router"
)

// leads returns the agents that can get the conversation from an agent in the same turn: through the targets of its
// model, its routes, the rules of a router, and after an error.
func leads(tree *agent.Tree, n *agent.Node) (to []*agent.Node) {
	rules, isRouter := agent.As[*router.Router](n.Agent)
	switch {
	case isRouter:
		to = append(byRules(tree, rules), tree.Node(rules.Default()))
	default:
		to = append(to, n.Targets()...)
	}
	for _, r := range n.Routes() {
		to = append(to, r.To)
	}
	if instead := n.OnError(); instead != nil {
		to = append(to, instead)
	}
	return to
}

func byRules(tree *agent.Tree, r *router.Router) (to []*agent.Node) {
	for _, rule := range r.Rules() {
		to = append(to, tree.Node(rule.To))
	}
	return to
}

// next returns the agents that can get the user's next message after an agent has answered, by the rules of the runner:
// the agent remains active unless it returns to its parent, or is below a router, which then decides again. A sticky
// router keeps the agent if no rule matches.
func next(tree *agent.Tree, n *agent.Node) (to []*agent.Node) {
	for n.Parent != nil && n.Properties.Return == agent.ReturnToParent {
		n = n.Parent
	}
	to = append(to, n)
	var way []*agent.Node // up to the outermost router
	for at, first := n, n.FirstRouter(); first != nil; at = at.Parent {
		if way = append(way, at); at == first {
			break
		}
	}
	for i := len(way) - 1; i >= 0; i-- {
		r, ok := agent.As[*router.Router](way[i].Agent)
		switch {
		case ok && r.Sticky() && way[i] != n:
			to = append(to, byRules(tree, r)...)
			continue
		case way[i].Properties.Router:
			to = append(to, way[i])
		}
		break
	}
	return to
}

// reach returns all agents that can get the conversation from an agent, including itself: in one turn or, if turns is
// set, in any number of turns. It stops at the first agent for which until, which may be nil, returns true.
func reach(tree *agent.Tree, from *agent.Node, turns bool, until func(*agent.Node) bool) (reached map[*agent.Node]bool, found bool) {
	reached = map[*agent.Node]bool{from: true}
	for todo := []*agent.Node{from}; len(todo) > 0; {
		n := todo[0]
		todo = todo[1:]
		to := leads(tree, n)
		if turns && !n.Virtual() {
			to = append(to, next(tree, n)...)
		}
		for _, t := range to {
			if t == nil || reached[t] {
				continue
			}
			if until != nil && until(t) {
				return reached, true
			}
			reached[t] = true
			todo = append(todo, t)
		}
	}
	return reached, false
}

// below reports whether an agent is another one, or is below it.
func below(n, other *agent.Node) bool {
	for n != nil && n != other {
		n = n.Parent
	}
	return n != nil
}

// keeps reports whether an agent with the conversation keeps it, or the agents below it do, while the user may need
// agents elsewhere. A person can transfer it to any agent.
func keeps(tree *agent.Tree, n *agent.Node) bool {
	if _, leaves := reach(tree, n, true, func(other *agent.Node) bool { return !below(other, n) }); leaves {
		return false
	}
	for other := range tree.Walk() {
		if !below(other, n) && !below(n, other) {
			return true
		}
	}
	return false
}

// insideWorkflow reports whether a workflow or a graph above an agent runs it, in a scope that ends with its answer.
func insideWorkflow(n *agent.Node) bool {
	for up := n.Parent; up != nil; up = up.Parent {
		if up.Properties.Workflow {
			return true
		}
	}
	return false
}
