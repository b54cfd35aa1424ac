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

// ErrUnknownRef is the error of a [Resolver] that knows no agent of that name.
var ErrUnknownRef = errors.New("unknown agent")

// Resolver makes the agent of one node. It is called once for each node, so that two
// nodes with one reference have two agents. ref is as written in the graph, config
// the node's own, nil if it has none.
type Resolver func(ref string, config map[string]any) (agent.Agent, error)

// Resolvers asks several resolvers, until one knows the reference.
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

// AgentOption configures an Agent.
type AgentOption func(*Agent)

// WithAgent gives a node its agent; no resolver is called for it. A node of a graph
// inside a node is named by both ids with a slash between them.
func WithAgent(id string, a agent.Agent) AgentOption {
	return func(g *Agent) { g.given[id] = a }
}

// WithConcurrency bounds how many nodes run at once. 0, the default, is no bound.
func WithConcurrency(n int) AgentOption { return func(g *Agent) { g.concurrency = n } }

// DefaultSettle is the settle time of an agent that is given none.
const DefaultSettle = workflow.Settle

// WithSettle sets the time within which what several nodes do counts as simultaneous:
// it is then taken in the order of the file, so that a run has the same events in the
// same order each time. A node that has something to store waits so long for others
// that run. 0 takes everything as it comes.
func WithSettle(d time.Duration) AgentOption { return func(g *Agent) { g.settle = d } }

// WithBackoff sets the pause before a node is called again after an error, and the
// longest one: pauses double, and each is up to half as long or half as much longer by
// chance. The default is 500 ms and 30 s. A node's own first pause is longer than the
// longest one only if this option is not given.
func WithBackoff(first, most time.Duration) AgentOption {
	return func(g *Agent) { g.backoff, g.maxBackoff, g.bounded = first, most, true }
}

// WithName names the agent; the default is the graph's name, with - in place of what an
// agent's name cannot have.
func WithName(name string) AgentOption { return func(g *Agent) { g.name = name } }

// WithDescription says what the agent is for; the default is the graph's description.
func WithDescription(d string) AgentOption { return func(g *Agent) { g.description = d } }

// WithReturn says who answers the user's next message after a graph that the
// conversation was handed to. The default is agent.ReturnToParent, because a graph
// cannot hand on itself.
func WithReturn(p agent.ReturnPolicy) AgentOption { return func(g *Agent) { g.returns = p } }

// Agent runs a graph. It can be used wherever an agent can: as the root of a tree, as
// a target of transfers, in an agent tool, or as a node of another graph. It is
// immutable and safe for concurrent use.
//
// Its input is what the user says, or the input of an inner scope. Each node runs in a
// scope of its own, and sees only what its edges give it. If every run ends at one
// node, the run's output is that node's output. Otherwise it is a mapping from the ids
// of the nodes at which it did end to their outputs. In a conversation the same is said
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
	bounded           bool // maxBackoff holds for the nodes' own pauses too
}

// New makes an agent from a graph that [Load] has returned. It refuses one that a
// program has put together itself: use a [Builder] for that. The error names every node
// whose agent cannot be resolved, or is not valid.
func New(g *Graph, resolve Resolver, opts ...AgentOption) (*Agent, error) {
	if g == nil {
		return nil, errors.New("agentgraph: the graph is nil")
	}
	if !g.sound {
		return nil, fmt.Errorf("graph %q: it was not checked: Load reads graphs, and a Builder makes them in Go", g.Name)
	}
	a := &Agent{graph: g, plan: newPlan(g), name: legalName(g.Name), description: g.Description, given: make(map[string]agent.Agent),
		returns: agent.ReturnToParent, settle: DefaultSettle, backoff: 500 * time.Millisecond, maxBackoff: 30 * time.Second}
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

// resolve gives a node its agent.
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

// legalName makes an agent's name of a graph's.
func legalName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return '-'
	}, name)
	if name == "user" || name == "human" { // which an agent's cannot be
		name += "-graph"
	}
	return name[:min(len(name), 64)]
}

// Graph returns the graph.
func (a *Agent) Graph() *Graph { return a.graph }

// Name implements agent.Agent.
func (a *Agent) Name() string { return a.name }

// Description implements agent.Agent.
func (a *Agent) Description() string { return a.description }

// SubAgents implements agent.Agent. The nodes of a graph are no sub-agents: no agent can
// transfer to one.
func (a *Agent) SubAgents() []agent.Agent { return nil }

// FindAgent implements agent.Agent.
func (a *Agent) FindAgent(name string) agent.Agent {
	if name == a.name {
		return a
	}
	return nil
}

// Properties says that the agent is a workflow, and which agents its nodes are, by their
// ids.
func (a *Agent) Properties() agent.Properties {
	p := agent.Properties{Workflow: true, Return: a.returns, Inner: make([]agent.Agent, len(a.plan.nodes))}
	for i := range a.plan.nodes {
		p.Inner[i] = a.plan.nodes[i].tree.Root().Agent
	}
	return p
}

// Run implements agent.Agent: it runs the graph, or resumes it where the log ends.
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
		if r.pauses(yield) {
			return
		}
		output, words := r.flow.output()
		if words != "" && inv.Scope() == "" && !yield(&event.Event{Data: &event.Text{Content: words}, More: true}, nil) {
			return
		}
		yield(&event.Event{Data: &event.Finish{Output: output}}, nil)
	}
}
