package agent

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// Human is the name of the person to whom a conversation can be transferred. No agent may have it.
const Human = "human"

// Tree is the index of a validated tree of agents: paths, parents, edges and the targets of each agent. It is
// immutable and safe for concurrent use.
type Tree struct {
	nodes          []*Node // in tree order: depth first, children in the given order
	byName         map[string]*Node
	sharesRequests bool
	anticipates    bool // the runner may ask targets of transfers early
}

// Node is an agent at its place in a tree.
type Node struct {
	Agent  Agent
	Path   string // the names from the root, joined by "/"
	Parent *Node  // nil for the root
	Edge   Edge   // the edge to this node; a root also has one if Via wraps it
	// Properties are the agent's when the tree was made. They are shared and must not be changed.
	Properties Properties
	Depth      int // 0 for the root

	tree     *Tree
	embedded Agent // the agent that Agent embeds, if Agent.FindAgent returns it
	virtual  bool  // a person, who is no agent's child and not in nodes
	order    int
	kids     []*Node
	targets  []*Node
	routes   []NodeRoute
	guards   []Guard
}

// Targets returns the nodes to which the agent may transfer, in tree order. The slice is shared and must not be
// changed.
func (n *Node) Targets() []*Node { return n.targets }

// Tree returns the tree of the node.
func (n *Node) Tree() *Tree { return n.tree }

// Children returns the nodes of the sub-agents. The slice is shared and must not be changed.
func (n *Node) Children() []*Node { return n.kids }

// MayTransferTo reports whether the policy allows a transfer to target. Both the offer of the transfer tool and its
// execution use it.
func (n *Node) MayTransferTo(target *Node) bool {
	switch {
	case !n.neighbours(target):
		return false
	case target.virtual:
		return !n.Properties.Policy.NoHuman && !n.Properties.Workflow
	case n.virtual, target.Parent == n, n.Properties.Router && n.above(target):
		return true
	case target == n.Parent:
		return n.Properties.Policy.AllowTransferToParent
	}
	return n.Properties.Policy.AllowTransferToPeers
}

// Down reports whether target is a child of the agent or a person, rather than its parent or a peer.
func (n *Node) Down(target *Node) bool { return target.Parent == n || target.virtual }

// SmallModels reports whether the agent, or one above it, has this property.
func (n *Node) SmallModels() bool {
	for ; n != nil; n = n.Parent {
		if n.Properties.SmallModels {
			return true
		}
	}
	return false
}

// Human returns the node of the person to whom a conversation of the tree can be transferred, or nil.
func (n *Node) Human() *Node {
	if h := n.tree.byName[Human]; h != nil && h.virtual {
		return h
	}
	return nil
}

// Virtual reports whether the node is not part of the tree, as that of a person.
func (n *Node) Virtual() bool { return n.virtual }

// FirstRouter returns the outermost router among the node and the nodes above it, or nil. Turns begin there.
func (n *Node) FirstRouter() (router *Node) {
	for ; n != nil; n = n.Parent {
		if n.Properties.Router {
			router = n
		}
	}
	return router
}

// GraphPath returns the names from the outermost router at or above the node down to the node, or nil if there is no
// router.
func (n *Node) GraphPath() []string {
	first := n.FirstRouter()
	if first == nil {
		return nil
	}
	path := make([]string, n.Depth-first.Depth+1)
	for i := range path {
		path[len(path)-1-i] = n.Agent.Name()
		n = n.Parent
	}
	return path
}

// OnError returns the agent that continues if a run of the node's agent fails, or nil.
func (n *Node) OnError() *Node {
	for at := n; at != nil; at = at.Parent {
		if to := at.tree.byName[at.Edge.OnError]; to != nil {
			return to
		}
	}
	return nil
}

func (n *Node) findTargets() {
	near := slices.Clone(n.kids)
	if n.Parent != nil {
		near = append(append(near, n.Parent), n.Parent.kids...)
	}
	if human := n.Human(); human != nil {
		near = append(near, human)
	}
	for _, other := range near {
		if n.MayTransferTo(other) {
			n.targets = append(n.targets, other)
		}
	}
	slices.SortFunc(n.targets, func(a, b *Node) int { return a.order - b.order })
}

// TreeOption configures a tree.
type TreeOption func(*Tree)

// WithHuman adds an agent that represents a person, with the name [Human]. Its node has no parent, [Tree.Walk] does
// not visit it, and all agents whose policy allows it may transfer to it.
func WithHuman(a Agent) TreeOption {
	return func(t *Tree) {
		t.byName[Human] = &Node{Agent: a, Path: Human, Properties: PropertiesOf(a), tree: t, virtual: true, order: len(t.nodes)}
	}
}

// WithSharedRequests makes all LLM agents of the tree whose models have the same name send requests that differ only
// at the end, so that an endpoint computes the rest only once. The property SharedRequests of the root does the same.
func WithSharedRequests() TreeOption { return func(t *Tree) { t.sharesRequests = true } }

// SharesRequests reports whether LLM agents of the tree share their requests.
func (t *Tree) SharesRequests() bool { return t.sharesRequests || t.Root().Properties.SharedRequests }

// WithAnticipation hides the reasons of transfers from the targets' models, as [HideReason] does on an edge: a target
// that is asked early cannot know the reason. Agents that share their requests see the whole call nevertheless, and so
// does the target of an edge with an input. The property Anticipation of the root does the same.
func WithAnticipation() TreeOption { return func(t *Tree) { t.anticipates = true } }

// Problem is one problem of a tree.
type Problem struct {
	Agent   string // the name of the agent
	Path    string // the agent's place in the tree
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// TreeError lists all problems of a tree.
type TreeError struct{ Problems []Problem }

func (e *TreeError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return "the tree of agents is not valid:\n  " + strings.Join(lines, "\n  ")
}

// NewTree validates and indexes the tree below root. The error is a [*TreeError] with every problem: invalid, reserved
// and duplicate names, agents with two parents, cycles, routes without a target or in a cycle, the problems of the
// agents' own checks, and agents whose FindAgent contradicts SubAgents.
func NewTree(root Agent, opts ...TreeOption) (*Tree, error) {
	edge := edgeTo(root)
	if edge.To == nil {
		return nil, &TreeError{[]Problem{{Message: "the root agent is nil"}}}
	}
	return newTree(edge, nil, opts)
}

// Subtree returns the tree of the agent and the agents below it, with the agent as its root. It keeps the guards of
// the edge to the agent and the global instructions of the agents above. It omits routes, and the targets of
// [OnError], that lead to agents outside the subtree. The error is that of [NewTree].
func (n *Node) Subtree(opts ...TreeOption) (*Tree, error) {
	edge := n.Edge
	edge.To = n.Agent
	return newTree(edge, n, opts)
}

// newTree builds the tree below an edge. of is the root's node in the larger tree of which the new one is a part, or
// nil.
func newTree(edge Edge, of *Node, opts []TreeOption) (*Tree, error) {
	b := &treeBuilder{tree: &Tree{byName: make(map[string]*Node)}, of: of, nodes: make(map[Agent]*Node), ancestors: make(map[Agent]bool)}
	b.add(edge.To, nil, edge)
	if of != nil {
		root := &b.tree.nodes[0].Properties
		b.tree.sharesRequests, b.tree.anticipates = of.tree.SharesRequests(), of.tree.anticipates
		for up := of.Parent; up != nil; up = up.Parent {
			root.GlobalInstruction = strings.Trim(up.Properties.GlobalInstruction+"\n\n"+root.GlobalInstruction, "\n")
		}
	}
	for _, opt := range opts {
		opt(b.tree)
	}
	b.tree.anticipates = b.tree.anticipates || b.tree.nodes[0].Properties.Anticipation != 0
	for _, n := range b.tree.nodes {
		n.Edge.HideReason = n.Edge.HideReason || b.tree.anticipates && n.Edge.Input == nil && !b.tree.SharesRequests()
		n.findTargets()
		b.findRoutes(n)
		b.findGuards(n)
		if n.Edge.Input != nil && n.Edge.Input.err != nil {
			b.problem(n.Agent.Name(), n.Path, "the transfer input of %q: %s", n.Agent.Name(), n.Edge.Input.err)
		}
	}
	b.checkRoutes()
	b.checkOnError()
	if len(b.problems) == 0 { // with a cycle, FindAgent may never return
		b.checkFind()
	}
	for _, n := range b.tree.nodes {
		if c, ok := As[Checker](n.Agent); ok && of == nil { // a part was checked with the whole tree
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
	tree      *Tree
	of        *Node // the root's node in the larger tree; nil if there is none
	nodes     map[Agent]*Node
	ancestors map[Agent]bool // the agents from the root to the current one
	problems  []Problem
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
	if b.ancestors[a] {
		b.problem(name, path, "the agent %q is its own ancestor: a tree has no cycles", name)
		return
	}
	if first := b.nodes[a]; first != nil {
		b.problem(name, path, "the agent %q has two parents: it is already at %s", name, first.Path)
		return
	}
	properties := PropertiesOf(a)
	if err := CheckName(name); err != nil && !properties.AnyName {
		b.problem(name, path, "%s", err)
	}
	n := &Node{Agent: a, Path: path, Parent: parent, Edge: edge, Properties: properties, tree: b.tree, order: len(b.tree.nodes)}
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
	b.nodes[a] = n
	b.ancestors[a] = true
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
	b.ancestors[a] = false
}

// elsewhere reports whether a name belongs to an agent of the larger tree that the part does not contain.
func (b *treeBuilder) elsewhere(name string) bool {
	return b.tree.byName[name] == nil && b.of != nil && b.of.tree.byName[name] != nil
}

// checkOnError reports edges with an unknown target of [OnError], a target above or below the agent, or targets that
// form a circle.
func (b *treeBuilder) checkOnError() {
	for _, n := range b.tree.nodes {
		name := n.Edge.OnError
		if name == "" {
			continue
		}
		to := b.tree.byName[name]
		switch {
		case to == nil && b.elsewhere(name):
			continue
		case to == nil:
			b.problem(n.Agent.Name(), n.Path, "%q must continue when %s fails, but there is no such agent", name, n.Agent.Name())
			continue
		case to == n, n.above(to), to.above(n):
			b.problem(n.Agent.Name(), n.Path, "%s cannot continue when %s fails: one is below the other", name, n.Agent.Name())
			continue
		}
		for steps := 0; to != nil && steps <= len(b.tree.nodes); steps++ {
			if to = to.OnError(); to == n {
				b.problem(n.Agent.Name(), n.Path, "the agents that continue when %s fails form a circle", n.Agent.Name())
				break
			}
		}
	}
}

// Root returns the root's node.
func (t *Tree) Root() *Node { return t.nodes[0] }

// Node returns the node with this name, or nil.
func (t *Tree) Node(name string) *Node { return t.byName[name] }

// Len returns the number of agents.
func (t *Tree) Len() int { return len(t.nodes) }

// Walk yields all nodes in tree order: parents before their children.
func (t *Tree) Walk() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, n := range t.nodes {
			if !yield(n) {
				return
			}
		}
	}
}
