package agentgraph

import (
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// subgraph reads the graph that a node has in place of an agent.
func (r *reader) subgraph(d *draft, node *Node, v fields) {
	f, config := v.get("graph"), v.get("config")
	line := f.key.Line() // the value of a mapping begins below
	if v.get("agentRef").there() {
		r.add(CodeYAML, f.path, line, "an agent has an agentRef or a graph, and this one has both")
	} else if config.there() {
		r.add(CodeYAML, config.path, config.line(), "config is for an agentRef: a graph in an agent's place takes none")
	}
	switch f.value.Kind() {
	case yamldoc.Mapping:
		if d.depth >= maxNested {
			r.add(CodeYAML, f.path, line, "graphs stand in each other at most %d deep", maxNested)
			return
		}
		inner := &draft{base: f.path, depth: d.depth + 1, graph: &Graph{APIVersion: d.graph.APIVersion, Name: node.ID, Version: d.graph.Version, sound: true}}
		r.spec(inner, f)
		r.inside(d, inner, node, f.path, line)
	case yamldoc.Text, yamldoc.Nothing:
		name, ok := r.required(f, CodeYAML)
		if !ok {
			return
		}
		if inner := r.include(d, name, f); inner != nil {
			r.inside(d, inner, node, f.path, line)
		}
	default:
		r.add(CodeYAML, f.path, line, "graph must be a mapping with agents, edges and entrypoint, or the name of a file, not %s", f.value.Describe())
	}
}

// inside notes what a graph in a node's place adds.
func (r *reader) inside(d, inner *draft, node *Node, path string, line int) {
	node.Graph = inner.graph
	d.nested = max(d.nested, inner.nested+1)
	if d.size <= maxNodes {
		if d.size += inner.size; d.size > maxNodes {
			r.add(CodeYAML, path, line, "the graph and those within it have more than %d agents", maxNodes)
		}
	}
}

// inner makes the agent of the graph that a node has in place of an agent. What was
// set for the graph around it also applies to it.
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
	if err != nil { // not in, which would be no nil
		return nil, err
	}
	return in, nil
}

// has reports whether the graph has a node, or a graph in a node's place that may have
// it.
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

// inLoop returns the graph as a loop runs it: if a round ends at one node, its output is
// that node's, so that the next round gets what the same graph has given.
func (a *Agent) inLoop() *Agent {
	in, p := *a, *a.plan
	p.body, in.plan = true, &p
	return &in
}
