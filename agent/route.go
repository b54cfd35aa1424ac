package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Route is a transfer that needs no model: when the agent's run stops, the target gets the conversation in the same
// turn. The target may be a child, the parent or a sibling, independently of the transfer policy. A parent that only
// runs other agents, such as a workflow, is not a valid target.
type Route struct {
	To   string
	When Condition // nil: always
}

// Condition decides, when an agent's run has stopped, whether a route is taken. answer is the last text of the agent
// in its run. A condition should depend only on the session and the answer. An error ends the turn; the answer stays.
type Condition func(ctx context.Context, inv *Invocation, answer string) (bool, error)

// OnStop returns a route to the agent named target. The route is taken when the run stops and all conditions hold; nil
// conditions are ignored.
func OnStop(target string, when ...Condition) Route {
	when = slices.DeleteFunc(slices.Clone(when), func(c Condition) bool { return c == nil })
	switch len(when) {
	case 0:
		return Route{To: target}
	case 1:
		return Route{target, when[0]}
	}
	return Route{target, func(ctx context.Context, inv *Invocation, answer string) (bool, error) {
		for _, c := range when {
			if ok, err := c(ctx, inv, answer); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}}
}

// When makes the edge to a child a route as well: when the parent's run stops and the condition holds, the child gets
// the conversation. A nil condition always holds.
func When(c Condition) EdgeOption {
	if c == nil {
		c = func(context.Context, *Invocation, string) (bool, error) { return true, nil }
	}
	return edgeOptionFunc(func(e *Edge) { e.When = c })
}

// NodeRoute is a route of an agent at its place in a tree.
type NodeRoute struct {
	To   *Node
	When Condition // nil: always
}

// Routes returns the agent's routes in the order in which the runner tries them: first those on edges. The slice is
// shared and must not be changed.
func (n *Node) Routes() []NodeRoute { return n.routes }

func (b *treeBuilder) findRoutes(n *Node) {
	for _, kid := range n.kids {
		if kid.Edge.When != nil {
			n.routes = append(n.routes, NodeRoute{kid, kid.Edge.When})
		}
	}
	for _, route := range n.Properties.Routes {
		to := b.tree.byName[route.To]
		if b.elsewhere(route.To) {
			continue
		}
		if !n.neighbours(to) {
			b.problem(n.Agent.Name(), n.Path, "the route to %q leads nowhere: routes lead to a child, the parent or a sibling", route.To)
			continue
		}
		n.routes = append(n.routes, NodeRoute{to, route.When})
	}
	for _, kid := range n.kids {
		if n.Properties.Router && kid.Edge.Input != nil {
			b.problem(n.Agent.Name(), n.Path, "the router cannot give %s the input that transfers to it need", kid.Agent.Name())
		}
	}
	// A route has no model or function that could write the input.
	for _, r := range n.routes {
		if n.InputFor(r.To) != nil {
			b.problem(n.Agent.Name(), n.Path, "the route to %s cannot carry the input that transfers to it need", r.To.Agent.Name())
		}
	}
}

// neighbours reports whether the tree allows a transfer from n to other, regardless of the policy.
func (n *Node) neighbours(other *Node) bool {
	switch {
	case other == nil || other == n:
		return false
	case other.Parent == n, n.virtual, other.virtual, n.Properties.Router && n.above(other):
		return true
	}
	if n.Parent == nil {
		return false
	}
	return !n.Parent.Properties.Workflow && (other == n.Parent || other.Parent == n.Parent)
}

// above reports whether n is above other, at any distance.
func (n *Node) above(other *Node) bool {
	for ; other != nil; other = other.Parent {
		if other.Parent == n {
			return true
		}
	}
	return false
}

// checkRoutes reports routes that form a cycle, regardless of their conditions: without a model nothing would end the
// cycle.
func (b *treeBuilder) checkRoutes() {
	const inside, done = 1, 2
	state := make(map[*Node]int)
	var way []*Node
	var visit func(n *Node)
	visit = func(n *Node) {
		state[n] = inside
		way = append(way, n)
		for _, r := range n.routes {
			switch state[r.To] {
			case 0:
				visit(r.To)
			case inside:
				var names []string
				for _, on := range way[slices.Index(way, r.To):] {
					names = append(names, on.Agent.Name())
				}
				b.problem(n.Agent.Name(), n.Path, "routes lead in a circle: %s", strings.Join(append(names, r.To.Agent.Name()), " → "))
			}
		}
		way = way[:len(way)-1]
		state[n] = done
	}
	for _, n := range b.tree.nodes {
		if state[n] == 0 {
			visit(n)
		}
	}
}

// Route returns the target of the first route whose condition holds for an answer, or nil if none does.
func (n *Node) Route(ctx context.Context, inv *Invocation, answer string) (*Node, error) {
	for _, r := range n.routes {
		if r.When == nil {
			return r.To, nil
		}
		switch ok, err := r.When(ctx, inv, answer); {
		case err != nil:
			return nil, fmt.Errorf("the condition of the route to %s: %w", r.To.Agent.Name(), err)
		case ok:
			return r.To, nil
		}
	}
	return nil, nil
}
