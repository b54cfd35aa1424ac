package agentgraph

import (
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
)

// Values are the arguments of a function on an edge or a node: the output of the edge's source or of the node, the
// input of the run, and the shared state. They are decoded by encoding/json, with numbers as json.Number. The function
// may change them.
type Values struct {
	Output, Input any
	State         map[string]any
}

// called calls a function and turns a panic into an error.
func called[T any](f func(Values) (any, error), v Values) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the function panicked: %v", p)
		}
	}()
	value, err := f(v)
	out, _ = value.(T)
	return out, err
}

// Builder builds a graph in Go, with agents and functions instead of the references and expressions of a file. Its
// methods return the Builder. Build reports all errors at once.
type Builder struct {
	graph  Graph
	agents []AgentOption
	errs   []error
}

// NewBuilder returns a Builder for a new graph. The entrypoint defaults to the first node, and the strategy to
// [FailFast].
func NewBuilder(name string) *Builder {
	return &Builder{graph: Graph{Name: name, OnError: ErrorHandling{Strategy: FailFast, MaxRetries: defaultMaxRetries}}}
}

// Node adds a node. Events and results of the graph name the agent by this id. Several nodes may have the same agent,
// and the agent may itself be a graph.
func (b *Builder) Node(id string, a agent.Agent, opts ...NodeOption) *Builder {
	if a == nil {
		b.errs = append(b.errs, fmt.Errorf("node %q: the agent is nil", id))
		return b
	}
	n := Node{ID: id, Ref: a.Name(), Tool: agent.PropertiesOf(a).Tool}
	for _, o := range opts {
		if o == nil {
			b.errs = append(b.errs, fmt.Errorf("node %q: an option is nil", id))
			continue
		}
		o(&n)
	}
	b.graph.Nodes = append(b.graph.Nodes, n)
	b.agents = append(b.agents, WithAgent(id, a))
	if b.graph.Entrypoint == "" {
		b.graph.Entrypoint = id
	}
	return b
}

// EdgeOption configures an edge of a [Builder].
type EdgeOption func(*Edge)

// When takes the edge only if the function returns true. An error of the function is a routing error, which the graph's
// strategy handles.
func When(holds func(Values) (bool, error)) EdgeOption {
	return func(e *Edge) { e.Condition = function(holds) }
}

// Transform passes the function's value to the target instead of the source's output. The value must have a JSON form.
func Transform(value func(Values) (any, error)) EdgeOption {
	return func(e *Edge) { e.Transform = function(value) }
}

// Edge adds an edge from one node to another.
func (b *Builder) Edge(from, to string, opts ...EdgeOption) *Builder {
	e := Edge{From: from, To: to}
	for _, o := range opts {
		if o == nil {
			b.errs = append(b.errs, fmt.Errorf("edge %s->%s: an option is nil", from, to))
			continue
		}
		o(&e)
	}
	b.graph.Edges = append(b.graph.Edges, e)
	return b
}

// Entrypoint sets the node that gets the run's input.
func (b *Builder) Entrypoint(id string) *Builder {
	b.graph.Entrypoint = id
	return b
}

// OnError sets what happens when an agent fails.
func (b *Builder) OnError(h ErrorHandling) *Builder {
	b.graph.OnError = h
	return b
}

// Build returns the agent. The error contains every problem: those that Load would find, as an [*Error], and those of
// options and agents.
func (b *Builder) Build(opts ...AgentOption) (*Agent, error) {
	g := b.graph
	errs := append(b.errs[:len(b.errs):len(b.errs)], b.checkOptions()...)
	switch s := g.OnError.Strategy; {
	case s == "":
		g.OnError.Strategy = FailFast
	case s != FailFast && s != Continue && s != Retry:
		errs = append(errs, fmt.Errorf("there is no strategy %q", s))
	}
	if g.OnError.MaxRetries < 0 {
		errs = append(errs, fmt.Errorf("%d retries: 0 is the least", g.OnError.MaxRetries))
	}
	if err := checkBuilt(&g); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.Name, err)
	}
	g.checked = true
	return New(&g, nil, append(b.agents[:len(b.agents):len(b.agents)], opts...)...)
}

// checkBuilt checks a graph by the same rules as a file.
func checkBuilt(g *Graph) error {
	if len(g.Nodes) == 0 {
		return errors.New("the graph has no nodes")
	}
	r := &reader{arbor: true}
	d := &draft{graph: g, base: "spec", nodeLines: make([]nodeLines, len(g.Nodes)), edgeLines: make([][2]int, len(g.Edges))}
	for i, n := range g.Nodes {
		if n.ID == "" {
			r.add(CodeMissingField, index("spec.agents", i)+".id", 0, "the id is empty")
		}
	}
	for i, e := range g.Edges {
		if e.From == "" || e.To == "" {
			r.add(CodeMissingField, index("spec.edges", i), 0, "the edge %s->%s lacks an id", e.From, e.To)
		}
	}
	if g.Entrypoint == "" {
		r.add(CodeMissingField, "spec.entrypoint", 0, "the entrypoint is empty")
	}
	(&checker{reader: r, draft: d}).check()
	if len(r.problems) > 0 {
		sortProblems(r.problems)
		return &Error{Problems: r.problems}
	}
	return nil
}
