package conversation

import (
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// Len returns the number of nodes.
func (g *Graph) Len() int { return g.live }

// Node returns a node by its id.
func (g *Graph) Node(id string) (Node, bool) {
	place := g.find(id)
	if place == none {
		return Node{}, false
	}
	return g.view(place), true
}

// Nodes returns all nodes in the order of their first events.
func (g *Graph) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for place := range g.places() {
			if !yield(g.view(place)) {
				return
			}
		}
	}
}

// places returns the places of all nodes, in order.
func (g *Graph) places() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for place := range int32(g.nodes.n) {
			if g.at(place) != nil && !yield(place) {
				return
			}
		}
	}
}

// Runs returns the ids of all runs that have nodes, in the order of their first events.
func (g *Graph) Runs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for ri := range g.runs.n {
			if r := g.runAt(int32(ri)); r.first != none && !yield(r.id) {
				return
			}
		}
	}
}

// Children returns the children of a node, in the order of their first events.
func (g *Graph) Children(id string) []Node { return g.views(g.children(g.find(id))) }

// Parents returns the parent of a node, or nil for a root.
func (g *Graph) Parents(id string) []Node {
	n := g.at(g.find(id))
	if n == nil {
		return nil
	}
	if parent := g.parentOf(n); parent != none {
		return []Node{g.view(parent)}
	}
	return nil
}

// Run returns the nodes of a run, in order.
func (g *Graph) Run(runID string) []Node { return g.views(g.run(g.findRun(runID), none)) }

// Last returns the last node of a run.
func (g *Graph) Last(runID string) (Node, bool) {
	if ri := g.findRun(runID); ri != none {
		if last := g.runAt(ri).last; last != none {
			return g.view(last), true
		}
	}
	return Node{}, false
}

// Text returns the joined content of the text nodes of a run.
func (g *Graph) Text(runID string) string {
	var b strings.Builder
	for _, place := range g.run(g.findRun(runID), none) {
		if n := g.at(place); n.body.kind == event.TypeText {
			b.WriteString(n.text())
		}
	}
	return b.String()
}

// ToolCalls returns the tool_call nodes of a run, in order.
func (g *Graph) ToolCalls(runID string) []Node {
	calls := g.run(g.findRun(runID), none)
	return g.views(slices.DeleteFunc(calls, func(place int32) bool { return g.at(place).body.kind != event.TypeToolCall }))
}

// Walk yields a node and all nodes below it, depth first and each node once. It yields nothing for an unknown id.
func (g *Graph) Walk(id string) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		var stack []int32 // instead of recursion, because conversations are long
		if start := g.find(id); start != none {
			stack = append(stack, start)
		}
		for len(stack) > 0 {
			place := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if !yield(g.view(place)) {
				return
			}
			children := g.children(place) // a node has at most one parent
			slices.Reverse(children)
			stack = append(stack, children...)
		}
	}
}

// Topological yields all nodes, each once and every parent before its children: depth first, from the roots in the
// order of their first events. The order differs from that of [Graph.Nodes] if events arrived in an unusual order.
func (g *Graph) Topological() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for place := range g.places() {
			root := g.at(place)
			if g.parentOf(root) != none {
				continue
			}
			for n := range g.Walk(root.id) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// PathToRoot returns a node and all nodes above it, up to the root.
func (g *Graph) PathToRoot(id string) []Node {
	var path []Node
	for place := g.find(id); place != none; place = g.parentOf(g.at(place)) {
		path = append(path, g.view(place))
	}
	return path
}

// children returns the places of a node's children.
func (g *Graph) children(place int32) []int32 {
	n := g.at(place)
	if n == nil {
		return nil
	}
	var found []int32
	for b := n.spawned; b != nil; b = b.rest {
		if first := g.runAt(b.run).first; first != none {
			found = append(found, first)
		}
	}
	if next := g.nextOf(place); next != none {
		found = append(found, next)
	}
	slices.Sort(found) // the order of their first events
	return found
}

// run returns the places of a run's nodes up to the node last, or of all of them if last is none. A run that the graph
// does not contain has no nodes.
func (g *Graph) run(ri, last int32) []int32 {
	if ri == none {
		return nil
	}
	var found []int32
	for place := g.runAt(ri).first; place != none; place = g.nextOf(place) {
		found = append(found, place)
		if place == last {
			break
		}
	}
	return found
}

func (g *Graph) views(places []int32) []Node {
	if len(places) == 0 {
		return nil
	}
	nodes := make([]Node, len(places))
	for i, place := range places {
		nodes[i] = g.view(place)
	}
	return nodes
}
