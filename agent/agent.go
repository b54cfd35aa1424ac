package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/agentarbor/arbor/event"
)

// Agent is a node of a tree: an LLM agent, a function, a workflow, a router, a graph, or a remote agent. Agents are
// immutable after construction and do not know their parent, so one value may serve many sessions at the same time.
type Agent interface {
	// Name returns the name, which is unique in the tree: 1 to 64 characters of a-z, A-Z, 0-9, _ and -.
	Name() string
	// Description returns a text that tells other agents, and their models, what this agent is for.
	Description() string
	// SubAgents returns the children in the order in which they were given.
	SubAgents() []Agent
	// FindAgent returns the agent with this name in this subtree, itself included, or nil. Before each step the runner
	// asks the root which agent a name means: the root itself, the active agent of the session, or the target of a
	// transfer.
	//
	// A custom type may implement FindAgent in its own way, as long as it returns the agents that are reachable
	// through SubAgents; [NewTree] refuses other answers with a [FindError]. It may also return an agent of the tree
	// for further names, such as a former name. It must always return the same agent for a name, be fast, and be safe
	// for concurrent use, as an [Index] is. A type that wraps another agent may return the wrapped agent for its own
	// name if it embeds that agent, or has the method Unwrap; see [As].
	FindAgent(name string) Agent
	// Run runs one step from the log and returns: one model answer, or one batch of tools. If the last value that it
	// yields is [event.Continue], the runner calls it for another step. Otherwise the run is finished, with the reason
	// of an [event.Finish] yielded last, or "stop". An error ends the run; events yielded before it are kept.
	Run(ctx context.Context, inv *Invocation) iter.Seq2[*event.Event, error]
}

// RunFunc is one step of a function agent.
type RunFunc func(ctx context.Context, inv *Invocation) iter.Seq2[*event.Event, error]

// Option configures an agent made by [New].
type Option func(*Properties)

// WithSubAgents gives a function agent children. Wrap a child in [Via] to set options of the edge to it.
func WithSubAgents(children ...Agent) Option {
	return func(p *Properties) { p.Edges = append(p.Edges, EdgesOf(children)...) }
}

// WithTransferPolicy sets where a function agent may transfer to in addition to its children.
func WithTransferPolicy(policy TransferPolicy) Option {
	return func(p *Properties) { p.Policy = policy }
}

// WithReturn sets which agent answers the user's next message if a transfer started the function agent.
func WithReturn(policy ReturnPolicy) Option { return func(p *Properties) { p.Return = policy } }

// WithRoutes gives a function agent transfers that need no model.
func WithRoutes(routes ...Route) Option {
	return func(p *Properties) { p.Routes = append(p.Routes, routes...) }
}

// WithGuards adds checks of what a function agent receives and of what it says.
func WithGuards(guards ...Guard) Option {
	return func(p *Properties) { p.Guards = append(p.Guards, guards...) }
}

// WithInnerAgents lists the agents that a function agent runs in scopes of their own, by Runtime.Run or in a group.
// Budgets can then be set for them.
func WithInnerAgents(agents ...Agent) Option {
	return func(p *Properties) { p.Inner = append(p.Inner, agents...) }
}

// New returns an agent of a Go function. Each call of the function is one step. After a crash the step runs again,
// with inv.Attempt() greater than 1. The function may transfer by yielding an [event.Transfer] that names a legal
// target. It may run for several sessions at the same time.
func New(name, description string, run RunFunc, opts ...Option) (Agent, error) {
	a := &funcAgent{name: name, description: description, run: run}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("agent %q: option %d is nil", name, i)
		}
		opt(&a.properties)
	}
	if run == nil {
		return nil, fmt.Errorf("agent %q: the run function is nil", name)
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	for _, e := range a.properties.Edges {
		if e.To == nil {
			return nil, fmt.Errorf("agent %q: a sub-agent is nil", name)
		}
	}
	a.index = Index(a)
	return a, nil
}

type funcAgent struct {
	name, description string
	properties        Properties
	run               RunFunc
	index             map[string]Agent
}

func (a *funcAgent) Name() string                { return a.name }
func (a *funcAgent) Description() string         { return a.description }
func (a *funcAgent) SubAgents() []Agent          { return AgentsOf(a.properties.Edges) }
func (a *funcAgent) FindAgent(name string) Agent { return a.index[name] }
func (a *funcAgent) Properties() Properties      { return a.properties }
func (a *funcAgent) Run(ctx context.Context, inv *Invocation) iter.Seq2[*event.Event, error] {
	return a.run(ctx, inv)
}

// Index maps the names of root's subtree, root included, to its agents. If two agents have the same name, the first
// counts, depth first. Constructors build an Index for FindAgent. It also works with cycles, which [NewTree] refuses.
func Index(root Agent) map[string]Agent {
	index := make(map[string]Agent)
	seen := make(map[Agent]bool)
	var add func(Agent)
	add = func(a Agent) {
		if a == nil || !reflect.ValueOf(a).Comparable() || seen[a] {
			return
		}
		seen[a] = true
		if index[a.Name()] == nil {
			index[a.Name()] = a
		}
		for _, child := range a.SubAgents() {
			add(child)
		}
	}
	add(root)
	return index
}

// CheckName returns an error if name cannot be an agent's name.
func CheckName(name string) error {
	if name == "" {
		return errors.New("an agent has no name")
	}
	if len(name) > 64 {
		return fmt.Errorf("agent name %q has %d characters: at most 64 are allowed", name[:64]+"…", len(name))
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return fmt.Errorf("agent name %q contains %q: only letters a-z and A-Z, digits, _ and - are allowed", name, c)
		}
	}
	if name == "user" || name == Human {
		return fmt.Errorf("agent name %q is reserved", name)
	}
	return nil
}
