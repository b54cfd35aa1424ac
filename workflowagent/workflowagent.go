// Package workflowagent makes agents that run other agents in an order that no model
// chooses: one after the other ([Sequential]), side by side ([Parallel]), or again and
// again ([Loop]). Package agentgraph is for all that is more than one of these.
//
// A workflow can be used wherever an agent can. Its input is what the user says, or the
// input of an inner scope; in a conversation its output is also said as text. Each run of
// a child has a scope of its own: the child sees its input, and the conversation around
// only with [WithHistory]. A transfer inside moves that inner conversation only, and
// nobody can transfer to a child from outside. Where a workflow is follows from the log,
// so that after a crash or a pause it goes on with the children that had not finished.
//
// It imports agent, agent/workflow, event, tools and view. The runner runs the agents.
package workflowagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/view"
)

// flow is a workflow. It is immutable.
type flow struct {
	kind, name         string
	steps              []*agent.Tree
	properties         agent.Properties
	around             []agent.EdgeOption // of every child
	timeout            time.Duration
	until              Condition
	concurrency, limit int
	collect, strict    bool
	errs               []error // what is wrong with it
}

const sequential, parallel, loop = agent.FlowSequential, agent.FlowParallel, agent.FlowLoop

// Condition says after a round whether a loop is over. The output is that of the round's
// last agent. It should depend on its arguments only: after a crash it may be asked again.
type Condition func(ctx context.Context, inv *agent.Invocation, output json.RawMessage) (bool, error)

// Option configures a workflow.
type Option func(*flow)

// WithReturn says who answers next after a workflow that the conversation was handed to. The
// default is agent.ReturnToParent, because a workflow cannot hand on itself.
func WithReturn(p agent.ReturnPolicy) Option { return func(f *flow) { f.properties.Return = p } }

// WithGuards checks what the workflow receives, and what it and its children say.
func WithGuards(guards ...agent.Guard) Option {
	return func(f *flow) { f.properties.Guards = append(f.properties.Guards, guards...) }
}

// WithHistory shows the children the conversation around the workflow, as the policy says.
func WithHistory(p view.Policy) Option {
	return func(f *flow) { f.around = append(f.around, view.Around(p)) }
}

// WithTimeout bounds each run of a child, which fails with agent.ErrTimeout then; 0 does not.
func WithTimeout(d time.Duration) Option { return func(f *flow) { f.timeout = d } }

// Collect lets a Parallel go on when a child fails, with {"error": "what went wrong"} as
// that child's output. A limit of the turn or a spent budget ends it all the same.
func Collect() Option { return only(parallel, "Collect", func(f *flow) { f.collect = true }) }

// WithConcurrency bounds how many children of a Parallel run at once; 0 is no bound.
func WithConcurrency(n int) Option {
	return only(parallel, "WithConcurrency", func(f *flow) { f.concurrency = n })
}

// Until ends a Loop after the first round for which done is true. Its error ends the run.
func Until(done Condition) Option { return only(loop, "Until", func(f *flow) { f.until = done }) }

// WithLimit bounds the rounds of a Loop, at least 1. A Loop that reaches the bound does not fail: its
// output is that of the last round, and a notice in the log reports the bound. Defaults to 10.
func WithLimit(rounds int) Option { return only(loop, "WithLimit", func(f *flow) { f.limit = rounds }) }

// FailAtLimit makes it an error, [ErrLoopLimit], if a Loop reaches its limit of rounds.
func FailAtLimit() Option { return only(loop, "FailAtLimit", func(f *flow) { f.strict = true }) }

// ErrLoopLimit is the error of a Loop with [FailAtLimit].
var ErrLoopLimit = errors.New("the loop has reached its limit of rounds")

func only(kind, option string, set func(*flow)) Option {
	return func(f *flow) {
		if set(f); f.kind != kind {
			f.wrong("%s is an option of %s workflows, and this is %s", option, kind, f.kind)
		}
	}
}

func (f *flow) wrong(format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf(format, args...))
}

// Sequential makes a workflow that runs agents one after the other: the output of one is
// the input of the next, that of the last is the workflow's. The first that fails ends it.
// An agent may stand in it several times.
func Sequential(name, description string, agents []agent.Agent, opts ...Option) (agent.Agent, error) {
	return newFlow(sequential, name, description, agents, opts)
}

// Parallel makes a workflow that runs agents side by side, all with its own input. The
// output is an object of their outputs by their names, in the order of agents. The first
// that fails ends the workflow and cancels the others; see [Collect].
func Parallel(name, description string, agents []agent.Agent, opts ...Option) (agent.Agent, error) {
	return newFlow(parallel, name, description, agents, opts)
}

// Loop makes a workflow that runs agents as [Sequential] does, in rounds: each begins with
// the output of the one before. It ends when [Until] says so, when an agent has
// called the tool of [ExitTool], or at its limit of rounds.
func Loop(name, description string, agents []agent.Agent, opts ...Option) (agent.Agent, error) {
	return newFlow(loop, name, description, agents, opts)
}

// newFlow makes a workflow. The error names it and everything that is wrong with it.
func newFlow(kind, name, description string, agents []agent.Agent, opts []Option) (agent.Agent, error) {
	f := &flow{kind: kind, name: name, limit: 10, properties: agent.Properties{Workflow: true, Flow: kind, Return: agent.ReturnToParent}}
	if err := option.Apply(f, opts); err != nil {
		f.wrong("%w", err)
	}
	switch {
	case len(agents) == 0:
		f.wrong("it has no agents")
	case f.timeout < 0 || f.concurrency < 0:
		f.wrong("a bound or a time is negative")
	case f.limit < 1:
		f.wrong("a limit of %d rounds: at least 1 is needed", f.limit)
	}
	for i, child := range agents {
		tree, err := agent.NewTree(agent.Via(child, f.around...))
		if err != nil {
			f.wrong("agent %d: %w", i, err)
			continue
		}
		if kind == parallel && slices.ContainsFunc(f.properties.Inner, func(a agent.Agent) bool { return a.Name() == child.Name() }) {
			f.wrong("two agents have the name %q, by which their outputs are told apart", child.Name())
		}
		f.steps = append(f.steps, tree)
		f.properties.Inner = append(f.properties.Inner, child)
	}
	a, err := agent.New(name, description, f.run, func(p *agent.Properties) { *p = f.properties })
	if err = errors.Join(append(f.errs, err)...); err != nil {
		return nil, fmt.Errorf("workflow %q: %w", name, err)
	}
	return a, nil
}
