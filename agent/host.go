package agent

import (
	"reflect"
	"slices"
)

// Host is implemented by agents, and by tools, that run agents in scopes of their own,
// as a graph does its nodes. A runner knows by it which agents there are besides those
// to which the conversation can be handed.
type Host interface{ InnerAgents() []Agent }

// Inner returns the agents of a name, each with all below it, that the node's agent runs
// in scopes of their own, as far as a [Host] tells. There are several if it runs agents of
// one name, by different tools.
func (n *Node) Inner(name string) (trees []*Tree) {
	for a := n.Agent; a != nil; a = unwrap(a) {
		h, ok := a.(Host)
		if !ok {
			continue
		}
		for _, inner := range h.InnerAgents() {
			if inner == nil || inner.Name() != name {
				continue
			}
			if tree, err := NewTree(inner); err == nil {
				trees = append(trees, tree)
			}
		}
		break
	}
	return trees
}

// Names returns the names by which the log may call an agent: of those of the tree, and
// of those that they, or their tools, run in scopes of their own, as far as a [Host]
// tells. Each has the names that agents so called have themselves: one other than it if
// a graph calls the agent by the id of a node.
func (t *Tree) Names() map[string][]string {
	names := make(map[string][]string)
	seen := make(map[Agent]bool)
	var add func(a Agent)
	add = func(a Agent) {
		if a == nil {
			return
		}
		called := a.Name()
		for inner := unwrap(a); inner != nil; inner = unwrap(a) {
			a = inner
		}
		if !slices.Contains(names[called], a.Name()) {
			names[called] = append(names[called], a.Name())
		}
		if !reflect.ValueOf(a).Comparable() || seen[a] {
			return
		}
		seen[a] = true
		for _, child := range a.SubAgents() {
			add(child)
		}
		if h, ok := a.(Host); ok {
			for _, inner := range h.InnerAgents() {
				add(inner)
			}
		}
	}
	add(t.Root().Agent)
	return names
}

// unwrap returns the agent that another name, or options of an edge, were put around;
// nil if none were.
func unwrap(a Agent) Agent {
	switch a := a.(type) {
	case *edgeAgent:
		return a.Agent
	case *named:
		return a.Agent
	case *namedWorkflow:
		return a.Agent
	}
	return nil
}
