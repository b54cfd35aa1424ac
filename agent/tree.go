package agent

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// Tree is the index of a validated tree of agents: paths, parents, edges and
// who may transfer to whom. It is immutable and safe for concurrent use.
type Tree struct {
	nodes  []*Node // in tree order: depth first, children as given
	byName map[string]*Node
}

// Node is an agent at its place in a tree.
type Node struct {
	Agent  Agent
	Path   string // names from the root, joined by "/"
	Parent *Node  // nil for the root
	Edge   Edge   // the edge that leads here; a root may have one as well, made by Via
	// Properties are the agent's, as they were when the tree was made. They are shared.
	Properties Properties
	Depth      int // 0 for the root

	order   int
	kids    []*Node
	targets []*Node
	routes  []NodeRoute
	guards  []Guard
}

// Targets returns the nodes the agent may transfer to, in tree order. The slice
// is shared and must not be changed.
func (n *Node) Targets() []*Node { return n.targets }

// Children returns the nodes of the sub-agents. The slice is shared.
func (n *Node) Children() []*Node { return n.kids }

// MayTransferTo reports whether a transfer to target is within the policy. It
// is what both the offer of the transfer tool and its execution ask.
func (n *Node) MayTransferTo(target *Node) bool {
	if !n.neighbours(target) || target.Parent == n {
		return n.neighbours(target)
	}
	if target == n.Parent {
		return n.Properties.Policy.AllowTransferToParent
	}
	return n.Properties.Policy.AllowTransferToPeers
}

func (n *Node) findTargets() {
	near := slices.Clone(n.kids)
	if n.Parent != nil {
		near = append(append(near, n.Parent), n.Parent.kids...)
	}
	for _, other := range near {
		if n.MayTransferTo(other) {
			n.targets = append(n.targets, other)
		}
	}
	slices.SortFunc(n.targets, func(a, b *Node) int { return a.order - b.order })
}

// Problem is one thing that is wrong with a tree.
type Problem struct {
	Agent   string // the agent it is about
	Path    string // its place in the tree
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// TreeError lists all problems of a tree at once.
type TreeError struct{ Problems []Problem }

func (e *TreeError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return "the tree of agents is not valid:\n  " + strings.Join(lines, "\n  ")
}

// NewTree validates and indexes the tree below root. The error is a
// [*TreeError] that reports every problem: bad, reserved and duplicate names,
// agents with two parents, cycles, routes without a target or in a cycle, and
// what the agents' own checks find.
func NewTree(root Agent) (*Tree, error) {
	edge := edgeTo(root)
	if root = edge.To; root == nil {
		return nil, &TreeError{[]Problem{{Message: "the root agent is nil"}}}
	}
	b := &treeBuilder{tree: &Tree{byName: make(map[string]*Node)}, place: make(map[Agent]*Node), on: make(map[Agent]bool)}
	b.add(root, nil, edge)
	for _, n := range b.tree.nodes {
		n.findTargets()
		b.findRoutes(n)
		b.findGuards(n)
		if n.Edge.Input != nil && n.Edge.Input.err != nil {
			b.problem(n.Agent.Name(), n.Path, "the transfer input of %q: %s", n.Agent.Name(), n.Edge.Input.err)
		}
	}
	b.checkRoutes()
	for _, n := range b.tree.nodes {
		if c, ok := As[Checker](n.Agent); ok {
			for _, msg := range c.CheckNode(n) {
				b.problem(n.Agent.Name(), n.Path, "%s", msg)
			}
		}
	}
	if len(b.problems) > 0 {
		slices.SortStableFunc(b.problems, func(x, y Problem) int { return strings.Compare(x.Path, y.Path) })
		return nil, &TreeError{b.problems}
	}
	return b.tree, nil
}

type treeBuilder struct {
	tree     *Tree
	place    map[Agent]*Node
	on       map[Agent]bool // on the way from the root to here
	problems []Problem
}

func (b *treeBuilder) problem(agent, path, format string, args ...any) {
	b.problems = append(b.problems, Problem{agent, path, fmt.Sprintf(format, args...)})
}

func (b *treeBuilder) add(a Agent, parent *Node, edge Edge) {
	name := a.Name()
	path := name
	if parent != nil {
		path = parent.Path + "/" + name
	}
	if !reflect.ValueOf(a).Comparable() {
		b.problem(name, path, "the agent %q has the type %T, whose values cannot be compared: use a pointer", name, a)
		return
	}
	if b.on[a] {
		b.problem(name, path, "the agent %q is its own ancestor: a tree has no cycles", name)
		return
	}
	if first := b.place[a]; first != nil {
		b.problem(name, path, "the agent %q has two parents: it stands at %s already", name, first.Path)
		return
	}
	properties := PropertiesOf(a)
	if err := CheckName(name); err != nil && !properties.AnyName {
		b.problem(name, path, "%s", err)
	}
	n := &Node{Agent: a, Path: path, Parent: parent, Edge: edge, Properties: properties, order: len(b.tree.nodes)}
	if parent != nil {
		n.Depth = parent.Depth + 1
		parent.kids = append(parent.kids, n)
	}
	if other := b.tree.byName[name]; other != nil {
		b.problem(name, path, "the name %q is taken by %s: names are unique in a tree", name, other.Path)
	} else {
		b.tree.byName[name] = n
	}
	b.tree.nodes = append(b.tree.nodes, n)
	b.place[a] = n
	b.on[a] = true
	edges := properties.Edges
	if edges == nil {
		edges = EdgesOf(a.SubAgents())
	}
	for _, e := range edges {
		if e.To == nil {
			b.problem(name, path, "a sub-agent of %q is nil", name)
			continue
		}
		b.add(e.To, n, e)
	}
	b.on[a] = false
}

// Root returns the root's node.
func (t *Tree) Root() *Node { return t.nodes[0] }

// Node returns the node of a name, or nil.
func (t *Tree) Node(name string) *Node { return t.byName[name] }

// Len returns the number of agents.
func (t *Tree) Len() int { return len(t.nodes) }

// Walk visits all nodes in tree order: parents before their children.
func (t *Tree) Walk() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, n := range t.nodes {
			if !yield(n) {
				return
			}
		}
	}
}
