// Package workflowagent makes agents that run other agents in a fixed order: one after another ([Sequential]), at the
// same time ([Parallel]), or in rounds ([Loop]). Package agentgraph is for anything more complex.
//
// A workflow can be used like any other agent. Its input is the user's message or the input of an inner scope. In a
// conversation, it also sends its output as text. Each run of a child has its own scope: the child sees its input, and
// the surrounding conversation only with [WithHistory]. A transfer inside moves only that inner conversation, and no
// agent outside can transfer to a child. The state of a workflow is computed from the log: after a crash or a pause, it
// resumes with the children that had not finished.
//
// The runner runs the agents.
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
	kind, name           string
	steps                []*agent.Tree
	properties           agent.Properties
	edgeOptions          []agent.EdgeOption // of the edge to each child
	timeout              time.Duration
	until                Condition
	concurrency, limit   int
	collect, failAtLimit bool
	errs                 []error // the errors of the options
}

const sequential, parallel, loop = agent.FlowSequential, agent.FlowParallel, agent.FlowLoop

// Condition reports after a round whether a loop ends. output is the output of the round's last agent. A condition
// should depend only on its arguments, because it may be called again after a crash. An error ends the run of the loop.
type Condition func(ctx context.Context, inv *agent.Invocation, output json.RawMessage) (bool, error)

// Option configures a workflow.
type Option func(*flow)

// WithReturn sets which agent answers the user's next message if a transfer started the workflow.
//
// Defaults to agent.ReturnToParent, because a workflow cannot transfer.
func WithReturn(p agent.ReturnPolicy) Option { return func(f *flow) { f.properties.Return = p } }

// WithGuards adds guards that check what the workflow receives, and the messages of the workflow and its children.
func WithGuards(guards ...agent.Guard) Option {
	return func(f *flow) { f.properties.Guards = append(f.properties.Guards, guards...) }
}

// WithHistory shows the children the conversation around the workflow, as the policy selects. By default, they see only
// their input.
func WithHistory(p view.Policy) Option {
	return func(f *flow) { f.edgeOptions = append(f.edgeOptions, view.Around(p)) }
}

// WithTimeout limits each run of a child. A run that takes longer fails with agent.ErrTimeout. 0, the default, is no
// limit.
func WithTimeout(d time.Duration) Option { return func(f *flow) { f.timeout = d } }

// Collect lets a Parallel continue when a child fails. The child's output is then {"error": message}. A limit of the
// turn or an exhausted budget still ends the workflow.
func Collect() Option { return optionOf(parallel, "Collect", func(f *flow) { f.collect = true }) }

// WithConcurrency limits how many children of a Parallel run at the same time. 0, the default, is no limit.
func WithConcurrency(n int) Option {
	return optionOf(parallel, "WithConcurrency", func(f *flow) { f.concurrency = n })
}

// Until ends a Loop after the first round for which done is true. An error of done ends the run.
func Until(done Condition) Option { return optionOf(loop, "Until", func(f *flow) { f.until = done }) }

// WithLimit limits the rounds of a Loop, at least 1. A Loop that reaches the limit does not fail: its output is that of
// the last round, and a notice in the log reports the limit.
//
// Defaults to 10.
func WithLimit(rounds int) Option {
	return optionOf(loop, "WithLimit", func(f *flow) { f.limit = rounds })
}

// FailAtLimit makes a Loop fail with [ErrLoopLimit] when it reaches its limit of rounds.
func FailAtLimit() Option {
	return optionOf(loop, "FailAtLimit", func(f *flow) { f.failAtLimit = true })
}

// ErrLoopLimit is the error of a Loop with [FailAtLimit].
var ErrLoopLimit = errors.New("the loop has reached its limit of rounds")

// optionOf returns an option that only workflows of one kind have.
func optionOf(kind, option string, set func(*flow)) Option {
	return func(f *flow) {
		if set(f); f.kind != kind {
			f.addError("%s is an option of %s workflows, and this is %s", option, kind, f.kind)
		}
	}
}

func (f *flow) addError(format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf(format, args...))
}

// Sequential returns a workflow that runs agents one after another: the output of each is the input of the next, and
// the output of the last is the workflow's output. The first agent that fails ends the workflow. The same agent may be
// in the list several times. The error lists all problems.
func Sequential(name, description string, agents []agent.Agent, opts ...Option) (agent.Agent, error) {
	return newFlow(sequential, name, description, agents, opts)
}

// Parallel returns a workflow that runs agents at the same time, all with its own input. The output is an object with
// the output of each agent under the agent's name, in the order of agents. The first agent that fails ends the
// workflow and cancels the others; see [Collect]. The error lists all problems.
func Parallel(name, description string, agents []agent.Agent, opts ...Option) (agent.Agent, error) {
	return newFlow(parallel, name, description, agents, opts)
}

// Loop returns a workflow that runs agents like [Sequential], in rounds: the input of a round is the output of the
// previous round. The loop ends when the condition of [Until] is true, when an agent has called the tool of [ExitTool],
// or at its limit of rounds. The error lists all problems.
func Loop(name, description string, agents []agent.Agent, opts ...Option) (agent.Agent, error) {
	return newFlow(loop, name, description, agents, opts)
}

// newFlow returns a workflow. The error names the workflow and all its problems.
func newFlow(kind, name, description string, agents []agent.Agent, opts []Option) (agent.Agent, error) {
	f := &flow{kind: kind, name: name, limit: 10, properties: agent.Properties{Workflow: true, Flow: kind, Return: agent.ReturnToParent}}
	if err := option.Apply(f, opts); err != nil {
		f.addError("%w", err)
	}
	switch {
	case len(agents) == 0:
		f.addError("it has no agents")
	case f.timeout < 0 || f.concurrency < 0:
		f.addError("the timeout or the concurrency is negative")
	case f.limit < 1:
		f.addError("the limit is %d rounds, but must be at least 1", f.limit)
	}
	for i, child := range agents {
		tree, err := agent.NewTree(agent.Via(child, f.edgeOptions...))
		if err != nil {
			f.addError("agent %d: %w", i, err)
			continue
		}
		if kind == parallel && slices.ContainsFunc(f.properties.Inner, func(a agent.Agent) bool { return a.Name() == child.Name() }) {
			f.addError("two agents have the name %q, but each output needs a different name", child.Name())
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
