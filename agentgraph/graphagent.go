package agentgraph

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/view"
)

// ErrUnknownRef is the error of a [Resolver] that does not know a reference.
var ErrUnknownRef = errors.New("unknown agent")

// Resolver returns the agent of a node. It is called once per node, so two nodes with the same reference have two
// agents. ref is the reference as written in the graph. config is the node's configuration, or nil.
type Resolver func(ref string, config map[string]any) (agent.Agent, error)

// Resolvers returns a resolver that tries the given resolvers in order until one does not return [ErrUnknownRef].
func Resolvers(resolvers ...Resolver) Resolver {
	return func(ref string, config map[string]any) (agent.Agent, error) {
		for _, resolve := range resolvers {
			if a, err := resolve(ref, config); !errors.Is(err, ErrUnknownRef) {
				return a, err
			}
		}
		return nil, fmt.Errorf("%w %q", ErrUnknownRef, ref)
	}
}

// AgentOption configures an [Agent].
type AgentOption func(*Agent)

// WithAgent sets the agent of a node; no resolver is called for it. For a node of a graph inside a node, id is both ids
// with a slash between them.
func WithAgent(id string, a agent.Agent) AgentOption {
	return func(g *Agent) { g.given[id] = a }
}

// WithConcurrency limits how many nodes run at the same time. 0, the default, is no limit.
func WithConcurrency(n int) AgentOption { return func(g *Agent) { g.concurrency = n } }

// WithSettle sets the time within which events of several nodes count as simultaneous. Simultaneous events are ordered
// as the nodes are in the file, so that a run always has the same events in the same order. A node that has an event to
// store waits up to this long for other running nodes. 0 stores each event as it arrives.
//
// Defaults to a millisecond.
func WithSettle(d time.Duration) AgentOption { return func(g *Agent) { g.settle = d } }

// WithBackoff sets the first and the longest pause before a node is called again after an error. The pause doubles with
// each retry, and varies at random by up to half. A node's own first pause may exceed the longest pause only if this
// option is not given.
//
// Defaults to 500 ms and 30 s.
func WithBackoff(first, most time.Duration) AgentOption {
	return func(g *Agent) { g.backoff, g.maxBackoff, g.bounded = first, most, true }
}

// WithName sets the agent's name.
//
// Defaults to the graph's name, with - for each character that an agent's name cannot have.
func WithName(name string) AgentOption { return func(g *Agent) { g.name = name } }

// WithDescription sets the agent's description.
//
// Defaults to the graph's description.
func WithDescription(d string) AgentOption { return func(g *Agent) { g.description = d } }

// WithReturn sets which agent answers the user's next message after a transfer to this graph.
//
// Defaults to agent.ReturnToParent, because a graph cannot transfer.
func WithReturn(p agent.ReturnPolicy) AgentOption { return func(g *Agent) { g.returns = p } }

// Agent is an agent that runs a graph. It can be used like any other agent: as the root of a tree, as the target of a
// transfer, in an agent tool, or as a node of another graph. It is immutable and safe for concurrent use.
//
// Its input is the user's message, or the input of an inner scope. Each node runs in its own scope and sees only the
// values of its edges. If every run ends at the same node, the run's output is that node's output. Otherwise it is a
// mapping from the ids of the nodes where the run ended to their outputs. In a conversation, the agent sends the output
// as text.
type Agent struct {
	graph             *Graph
	plan              *plan
	name, description string
	returns           agent.ReturnPolicy
	given             map[string]agent.Agent
	concurrency       int
	settle            time.Duration
	backoff           time.Duration
	maxBackoff        time.Duration
	bounded           bool // maxBackoff also limits the nodes' own pauses
}

// New returns an agent for a graph from [Load]. It refuses a graph that a program assembled itself; use a [Builder] for
// that. The error names every node whose agent cannot be resolved or is invalid.
func New(g *Graph, resolve Resolver, opts ...AgentOption) (*Agent, error) {
	if g == nil {
		return nil, errors.New("agentgraph: the graph is nil")
	}
	if !g.checked {
		return nil, fmt.Errorf("graph %q: it was not checked: Load reads graphs, and a Builder makes them in Go", g.Name)
	}
	a := &Agent{graph: g, plan: newPlan(g), name: legalName(g.Name), description: g.Description, given: make(map[string]agent.Agent),
		returns: agent.ReturnToParent, settle: workflow.Settle, backoff: 500 * time.Millisecond, maxBackoff: 30 * time.Second}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("graph %q: option %d is nil", g.Name, i)
		}
		o(a)
	}
	a.plan.name = a.name
	var errs []error
	if err := agent.CheckName(a.name); err != nil {
		errs = append(errs, err)
	}
	if a.concurrency < 0 || a.settle < 0 || a.backoff < 0 || a.maxBackoff < a.backoff {
		errs = append(errs, errors.New("a bound or a time is negative, or the longest pause is shorter than the first"))
	}
	for id := range a.given {
		if !a.has(id) {
			errs = append(errs, fmt.Errorf("an agent is given for the node %q, which the graph does not have", id))
		}
	}
	for i := range a.plan.nodes {
		if err := a.resolve(&a.plan.nodes[i], resolve); err != nil {
			errs = append(errs, fmt.Errorf("node %q: %w", a.plan.nodes[i].ID, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.Name, err)
	}
	return a, nil
}

// resolve sets the agent of a node.
func (a *Agent) resolve(n *planNode, resolve Resolver) error {
	member, err := a.member(n, resolve)
	if err != nil {
		return err
	}
	if member == nil {
		return fmt.Errorf("%w %q", ErrUnknownRef, n.Ref)
	}
	if n.History != nil {
		member = agent.Via(member, view.Around(*n.History))
	}
	tree, err := agent.NewTree(workflow.Named(member, n.ID))
	if err != nil {
		return err
	}
	n.tree = tree
	return nil
}

// legalName returns a valid agent name for a graph's name.
func legalName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return '-'
	}, name)
	if name == "user" || name == "human" { // reserved names
		name += "-graph"
	}
	return name[:min(len(name), 64)]
}

// Graph returns the graph.
func (a *Agent) Graph() *Graph { return a.graph }

// Name implements [agent.Agent].
func (a *Agent) Name() string { return a.name }

// Description implements [agent.Agent].
func (a *Agent) Description() string { return a.description }

// SubAgents implements [agent.Agent]. It returns nil: the nodes of a graph are not sub-agents, and no agent can
// transfer to them.
func (a *Agent) SubAgents() []agent.Agent { return nil }

// FindAgent implements [agent.Agent].
func (a *Agent) FindAgent(name string) agent.Agent {
	if name == a.name {
		return a
	}
	return nil
}

// Properties reports that the agent is a workflow, and lists the agents of its nodes, named by node id.
func (a *Agent) Properties() agent.Properties {
	p := agent.Properties{Workflow: true, Return: a.returns, Inner: make([]agent.Agent, len(a.plan.nodes))}
	for i := range a.plan.nodes {
		p.Inner[i] = a.plan.nodes[i].tree.Root().Agent
	}
	return p
}

// Run implements [agent.Agent]. It runs the graph, or resumes it from the end of the log.
func (a *Agent) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		r := &run{agent: a, inv: inv}
		if err := r.load(ctx); err != nil {
			yield(nil, err)
			return
		}
		if !r.answer(yield) {
			return
		}
		if err := r.all(ctx); err != nil {
			yield(nil, err)
			return
		}
		if r.suspend(yield) {
			return
		}
		output, words := r.flow.output()
		if words != "" && inv.Scope() == "" && !yield(&event.Event{Data: &event.Text{Content: words}, More: true}, nil) {
			return
		}
		yield(&event.Event{Data: &event.Finish{Output: output}}, nil)
	}
}
