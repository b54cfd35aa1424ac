package agentgraph

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
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

// NodeOption configures a node of a [Builder], like the keys of an agent in an arbor/v1 file.
type NodeOption func(*Node)

// Timeout limits the duration of one call of the node.
func Timeout(d time.Duration) NodeOption {
	return func(n *Node) { n.Timeout = d }
}

// Retries calls the node again after an error, at most this often, whatever the graph's strategy. backoff is the first
// pause; 0 uses the pause of the graph.
func Retries(most int, backoff time.Duration) NodeOption {
	return func(n *Node) { n.Retry = &RetryPolicy{most, backoff} }
}

// History shows the node's agents the conversation around the graph, including its images and files, as the policy
// selects.
func History(p view.Policy) NodeOption {
	return func(n *Node) { n.History = &p }
}

// LoopUntil calls the node again with its own output until done returns true, at most this often. If done returns an
// error, the node fails.
func LoopUntil(most int, done func(Values) (bool, error)) NodeOption {
	return func(n *Node) { n.Loop = &Loop{Until: function(done), Max: most} }
}

// LoopOrFail is like [LoopUntil], but the node fails if it is not done after its last call.
func LoopOrFail(most int, done func(Values) (bool, error)) NodeOption {
	return func(n *Node) { n.Loop = &Loop{function(done), most, true} }
}

// ToolsOf makes the node run the tools of another node's agent. Both nodes get the same agent; see [Node].
func ToolsOf(id string) NodeOption {
	return func(n *Node) { n.Ref, n.ToolsOf = "", id }
}

// Output computes the node's output from its agent's output. If the function returns an error, the node fails.
func Output(value func(Values) (any, error)) NodeOption {
	return func(n *Node) { n.Transform = function(value) }
}

// Choose selects the targets that may be reached from the node. An error of the function, and an id to which no edge
// leads, are routing errors.
func Choose(targets func(Values) ([]string, error)) NodeOption {
	return func(n *Node) { n.Next = function(targets) }
}

// Write writes to a state key that Builder.State declares, after each call that gives an output. An error of the
// function is a routing error.
func Write(key string, value func(Values) (any, error)) NodeOption {
	return func(n *Node) { n.Update = append(n.Update, Update{key, function(value)}) }
}

// AskFirst asks a person for approval before the node runs. The question may be empty. by restricts who may answer, as
// in [tools.NeedsApproval].
func AskFirst(question string, by ...tools.By) NodeOption {
	return func(n *Node) { n.Human = &Approval{question, tools.Strictest(by...)} }
}

// Priority makes the edge exclusive with the other edges of its source that have a priority; see [Edge].
func Priority(n int) EdgeOption { return func(e *Edge) { e.Priority = n } }

// State declares a key of the state that the nodes share. initial must have a JSON form; nil means no initial value.
func (b *Builder) State(key string, reducer Reducer, initial any) *Builder {
	value, err := canonical(initial)
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("the initial value of %q: %w", key, err))
	}
	b.graph.State = append(b.graph.State, StateKey{Name: key, Reducer: reducer, Initial: value})
	return b
}

// function returns an expression that calls a function. If f is nil, Build refuses the expression.
func function[T any](f func(Values) (T, error)) *Expression {
	if f == nil {
		return &Expression{}
	}
	return &Expression{call: func(v Values) (any, error) { return f(v) }}
}

// canonical returns a value in the form that expressions return.
func canonical(v any) (any, error) {
	text, err := plainjson.Marshal(v)
	if err != nil {
		return nil, err
	}
	return expression.Decode(text), nil
}

// checkOptions returns the errors in the options of a Builder. checkBuilt checks the shape of the graph.
func (b *Builder) checkOptions() (errs []error) {
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	keys := make(map[string]bool)
	for _, k := range b.graph.State {
		k.check(keys, add)
		keys[k.Name] = true
	}
	for _, n := range b.graph.Nodes {
		n.check(keys, func(format string, args ...any) { add("node %q: "+format, append([]any{n.ID}, args...)...) })
	}
	for _, e := range b.graph.Edges {
		if e.Condition.missing() || e.Transform.missing() {
			add("edge %s->%s: a function is nil", e.From, e.To)
		}
		if e.Priority < 0 || e.Priority > maxPriority {
			add("edge %s->%s: a priority is from 1 to %d", e.From, e.To, maxPriority)
		}
	}
	return errs
}

// check reports what is wrong with a state key of a Builder. before are the keys before it.
func (k *StateKey) check(before map[string]bool, add func(format string, args ...any)) {
	known := slices.IndexFunc(reducers, func(r reducerOf) bool { return r.name == k.Reducer })
	switch {
	case known < 0:
		add("there is no reducer %q", k.Reducer)
	case k.Initial != nil && !reducers[known].fits(k.Initial):
		add("the initial value of %q for %s must be %s", k.Name, k.Reducer, reducers[known].what)
	}
	switch {
	case before[k.Name]:
		add("the state has the key %q twice", k.Name)
	case !identifier.MatchString(k.Name):
		add("the key %q of the state is not a name of letters, digits and _", k.Name)
	}
}

// check reports what is wrong with the options of a node of a Builder. keys are the declared state keys.
func (n *Node) check(keys map[string]bool, add func(format string, args ...any)) {
	if n.Timeout < 0 || n.Retry != nil && (n.Retry.Max < 0 || n.Retry.Backoff < 0) {
		add("a time or a number of retries is negative")
	}
	if n.Loop != nil && (n.Loop.Max < 1 || n.Loop.Max > maxCalls) {
		add("a loop has from 1 to %d calls", maxCalls)
	}
	written := make(map[string]bool)
	noFunction := n.Loop != nil && n.Loop.Until.missing() || n.Transform.missing() || n.Next.missing()
	for _, u := range n.Update {
		switch {
		case !keys[u.Key]:
			add("the state has no key %q", u.Key)
		case written[u.Key]:
			add("it writes to %q twice", u.Key)
		}
		written[u.Key] = true
		noFunction = noFunction || u.Value.missing()
	}
	if noFunction {
		add("a function is nil")
	}
}

// missing reports whether an option of a Builder was given no function.
func (e *Expression) missing() bool { return e != nil && e.call == nil }
