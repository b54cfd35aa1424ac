package agent

import (
	"iter"
	"reflect"
	"slices"
)

// Inner returns the trees of the agents with this name that the node's agent runs in scopes of their own, as its
// [Properties] list them. There are several if different tools run agents of one name.
func (n *Node) Inner(name string) (trees []*Tree) {
	for _, inner := range n.Properties.Inner {
		if inner == nil || inner.Name() != name {
			continue
		}
		if tree, err := NewTree(inner); err == nil {
			trees = append(trees, tree)
		}
	}
	return trees
}

// Names returns the names that the log may use for the agents of [Tree.AllAgents]. The value of each is the agents' own
// names. The two differ if a graph names an agent by the id of its node.
func (t *Tree) Names() map[string][]string {
	names := make(map[string][]string)
	for a := range t.AllAgents() {
		called := a.Name()
		for inner := unwrap(a); inner != nil; inner = unwrap(a) {
			a = inner
		}
		if !slices.Contains(names[called], a.Name()) {
			names[called] = append(names[called], a.Name())
		}
	}
	return names
}

// Budgets returns the budgets that the agents of [Tree.AllAgents] have for themselves, by the agents' own names.
func (t *Tree) Budgets() map[string]Budget {
	budgets := make(map[string]Budget)
	for a := range t.AllAgents() {
		own := PropertiesOf(a).Budgets.Own
		for inner := unwrap(a); inner != nil; inner = unwrap(a) {
			a = inner
		}
		if own != (Budget{}) {
			budgets[a.Name()] = budgets[a.Name()].Stricter(own)
		}
	}
	return budgets
}

// AllAgents yields the agents of the tree, and those that they or their tools run in scopes of their own, as far as
// their [Properties] list them. It yields an agent once for each of its places.
func (t *Tree) AllAgents() iter.Seq[Agent] {
	return func(yield func(Agent) bool) {
		seen := make(map[Agent]bool)
		var visit func(a Agent) bool
		visit = func(a Agent) bool {
			if a == nil {
				return true
			}
			if !yield(a) {
				return false
			}
			properties := PropertiesOf(a)
			for inner := unwrap(a); inner != nil; inner = unwrap(a) {
				a = inner
			}
			if !reflect.ValueOf(a).Comparable() || seen[a] {
				return true
			}
			seen[a] = true
			for _, child := range slices.Concat(a.SubAgents(), properties.Inner) {
				if !visit(child) {
					return false
				}
			}
			return true
		}
		visit(t.Root().Agent)
	}
}
