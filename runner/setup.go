package runner

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// setup is what all turns of a runner share.
type setup struct {
	config
	tree   *agent.Tree
	cache  *cache
	bounds *bounds
	inner  innerTrees
	late   atomic.Int32 // anticipations that have not returned and whose turns are over
}

// makeTree makes the tree, with a node for the person of the desk.
func (c *config) makeTree(tree func(...agent.TreeOption) (*agent.Tree, error)) (*agent.Tree, error) {
	var opts []agent.TreeOption
	if c.sharedRequests {
		opts = append(opts, agent.WithSharedRequests())
	}
	if c.anticipates {
		opts = append(opts, agent.WithAnticipation())
	}
	if c.person != nil {
		if err := c.person.Check(); err != nil {
			return nil, err
		}
		opts = append(opts, agent.WithHuman(c.person))
	}
	return tree(opts...)
}

func newSetup(c config, tree *agent.Tree) (*setup, error) {
	if threshold := tree.Root().Properties.Anticipation; threshold != 0 && !c.anticipates {
		WithAnticipation(SharedWords, threshold)(&c)
	}
	if err := c.checkOptions(); err != nil {
		return nil, err
	}
	bounds, err := newBounds(c, tree)
	if err != nil {
		return nil, err
	}
	return &setup{config: c, tree: tree, bounds: bounds, cache: newCache(c)}, nil
}

// activeNode returns the node that answers next, and whether the log names an agent
// that is no longer in the tree.
func (r *setup) activeNode(f *session.Fold) (n *agent.Node, missing bool) {
	name := f.Scope("").Active
	if name == agent.Human && r.person != nil { // while a handoff is under way
		return r.tree.Node(name), false
	}
	if name == "" || r.resumeRoot {
		return r.tree.Root(), false
	}
	if n, _ = r.tree.Find(name); n == nil { // an error ends the run that begins here
		return r.tree.Root(), true
	}
	for n.Parent != nil && n.Properties.Return == agent.ReturnToParent {
		n = n.Parent
	}
	if router := n.FirstRouter(); router != nil {
		return router, false
	}
	return n, false
}

// panicked logs a panic of an agent, or of something that the agent uses, and returns the error that ends the agent's
// run.
func (c *config) panicked(what, name string, p any) error {
	c.logger.Error(what+" panicked", "agent", name, "panic", p, "stack", string(debug.Stack()))
	return &agent.RunError{Agent: name, Code: event.CodeInternal, Err: fmt.Errorf("internal error: %v", p)}
}

// innerTrees caches the trees of agents that run in inner scopes, because agents keep values with their nodes.
type innerTrees struct {
	mu    sync.Mutex
	trees map[agent.Agent]*agent.Tree
}

// maxInner is the maximum number of cached trees. A program that makes a new agent for every call would otherwise fill
// the memory.
const maxInner = 256

// treeOf returns the validated tree of an agent.
func (t *innerTrees) treeOf(a agent.Agent) (*agent.Tree, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !reflect.ValueOf(a).Comparable() {
		return agent.NewTree(a) // which says what is wrong with it
	}
	if tree := t.trees[a]; tree != nil {
		return tree, nil
	}
	tree, err := agent.NewTree(a)
	if err != nil {
		return nil, err
	}
	if t.trees == nil || len(t.trees) >= maxInner {
		t.trees = make(map[agent.Agent]*agent.Tree)
	}
	t.trees[a] = tree
	return tree, nil
}
