package agent

import (
	"reflect"
	"slices"
)

// Inner returns the agents of a name, each with all below it, that the node's agent runs
// in scopes of their own, as far as its [Properties] tell. There are several if it runs
// agents of one name, by different tools.
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

// Names returns the names by which the log may call an agent: the agents of the tree,
// and those that they or their tools run in scopes of their own, as far as their
// [Properties] list them. The value of each is the names that the agents called so have
// themselves. They differ if a graph calls an agent by the id of a node.
func (t *Tree) Names() map[string][]string {
	names, _ := t.everybody()
	return names
}

// Budgets returns the budgets that agents bring along for themselves, by their own names: those
// of the agents that Names tells.
func (t *Tree) Budgets() map[string]Budget {
	_, budgets := t.everybody()
	return budgets
}

func (t *Tree) everybody() (names map[string][]string, budgets map[string]Budget) {
	names, budgets = make(map[string][]string), make(map[string]Budget)
	seen := make(map[Agent]bool)
	var add func(a Agent)
	add = func(a Agent) {
		if a == nil {
			return
		}
		called, properties := a.Name(), PropertiesOf(a)
		for inner := unwrap(a); inner != nil; inner = unwrap(a) {
			a = inner
		}
		if !slices.Contains(names[called], a.Name()) {
			names[called] = append(names[called], a.Name())
		}
		if own := properties.Budgets.Own; own != (Budget{}) {
			budgets[a.Name()] = budgets[a.Name()].Stricter(own)
		}
		if !reflect.ValueOf(a).Comparable() || seen[a] {
			return
		}
		seen[a] = true
		for _, child := range a.SubAgents() {
			add(child)
		}
		for _, inner := range properties.Inner {
			add(inner)
		}
	}
	add(t.Root().Agent)
	return names, budgets
}
