package agentgraph

import (
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// subgraph reads the graph that a node has in place of an agent.
func (r *reader) subgraph(d *draft, node *Node, k *yamldoc.Key, n yamldoc.Node) {
	line := r.Key.Line() // the value of a mapping begins on a later line
	switch kind := n.Kind(); {
	case node.Tool != "" || node.ToolsOf != "": // already reported
	case kind == yamldoc.Mapping:
		if d.depth >= maxNested {
			r.add(CodeYAML, r.Name, line, "graphs nest at most %d deep", maxNested)
			return
		}
		inner := &draft{base: r.Name, depth: d.depth + 1, graph: &Graph{APIVersion: d.graph.APIVersion, Name: node.ID, Version: d.graph.Version, checked: true}}
		r.spec(inner, k, n)
		r.inside(d, inner, node, line)
	case kind == yamldoc.Text:
		if name, ok := r.String(k, n); ok {
			if inner := r.include(d, name, n); inner != nil {
				r.inside(d, inner, node, line)
			}
		}
	default:
		r.WrongType(k, n)
	}
}

// inside adds an inner graph to a node, and its depth and size to the draft.
func (r *reader) inside(d, inner *draft, node *Node, line int) {
	node.Graph = inner.graph
	d.nested = max(d.nested, inner.nested+1)
	if d.size <= maxNodes {
		if d.size += inner.size; d.size > maxNodes {
			r.add(CodeYAML, r.Name, line, "the graph and those within it have more than %d agents", maxNodes)
		}
	}
}

// inner returns the agent of the graph that a node has in place of an agent. The options of the outer graph also apply
// to it.
func (a *Agent) inner(n *planNode, resolve Resolver) (agent.Agent, error) {
	opts := []AgentOption{WithName(legalName(n.ID)), WithConcurrency(a.concurrency), WithSettle(a.settle),
		func(in *Agent) {
			in.backoff, in.maxBackoff, in.bounded = a.backoff, a.maxBackoff, a.bounded
		}}
	for id, member := range a.given {
		if rest, ok := strings.CutPrefix(id, n.ID+"/"); ok {
			opts = append(opts, WithAgent(rest, member))
		}
	}
	in, err := New(n.Graph, resolve, opts...)
	if err != nil { // a nil *Agent would be a non-nil interface
		return nil, err
	}
	return in, nil
}

// has reports whether the graph has a node, or a node with an inner graph that may have it.
func (a *Agent) has(id string) bool {
	if _, ok := a.plan.index[id]; ok {
		return true
	}
	for i := range a.plan.nodes {
		if n := &a.plan.nodes[i]; n.Graph != nil && strings.HasPrefix(id, n.ID+"/") {
			return true
		}
	}
	return false
}

// inLoop returns the graph for use in a loop. If a round ends at one node, the round's output is that node's output, so
// that the next round gets it without a mapping around it.
func (a *Agent) inLoop() *Agent {
	in, p := *a, *a.plan
	p.body, in.plan = true, &p
	return &in
}
