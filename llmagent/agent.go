package llmagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// Agent is an agent that a language model drives. It is immutable and safe for concurrent use. The zero value is not
// usable; see [New].
type Agent struct {
	name         string
	description  string
	prompt       string // the instructions given to New
	instructions instructionFunc
	inPrompt     *stateKeys // the keys of the state in the prompt; nil: the prompt is used as it is
	model        llm.Model
	settings     llm.Settings
	history      view.Policy
	compaction   *compaction // nil: never
	decision     *decision   // nil: the model decides, by calling the transfer tool
	output       *output     // nil: text
	properties   agent.Properties
	index        map[string]agent.Agent // the agents of the subtree by name
	children     []agent.Agent

	tools    []tools.Tool
	sets     []tools.Set
	rules    *tools.Policy
	approver tools.By // for calls and transfers that name none
	parallel int      // the maximal number of tools of one answer that run at the same time
	maxTools int      // the number of tools that the endpoint accepts

	transferOptions transferOptions // of transfers, by options
	form            transfer.Form
	askTransfer     bool
	transferBy      tools.By // who may approve a transfer

	split    bool    // the model's part of a split agent
	problems []error // the errors of options

	own   *kit      // the agent's tools without those of sets
	kits  *sync.Map // *agent.Node → *kit: the agent's tools with those of sets, as of the last step
	lists *lastLists
}

// New returns an agent. The error names the agent and everything that is wrong with it. When the tree is built, the
// names of tools are checked against the names of transfer targets.
func New(name, instructions string, model llm.Model, opts ...Option) (*Agent, error) {
	a := &Agent{name: name, prompt: instructions, model: model}
	errs := a.configure(opts)
	switch {
	case a.inPrompt != nil && a.instructions != nil:
		errs = append(errs, errors.New("the instructions given to New contain keys of the state, but an option replaces them by a function"))
	case a.inPrompt != nil:
		errs = append(errs, a.inPrompt.check(a.prompt)...)
		a.instructions = func(_ context.Context, inv *agent.Invocation) (string, error) {
			return a.inPrompt.fill(a.prompt, inv.Session().State)
		}
	case a.instructions == nil:
		a.instructions = func(context.Context, *agent.Invocation) (string, error) { return instructions, nil }
	}
	if model == nil {
		errs = append(errs, errors.New("the model is nil"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("agent %q: %w", name, err)
	}
	a.index = agent.Index(a)
	return a, nil
}

// configure applies options, and returns all errors in the configuration.
func (a *Agent) configure(opts []Option) []error {
	a.parallel, a.maxTools, a.kits, a.lists = 8, DefaultMaxTools, new(sync.Map), new(lastLists)
	for i, o := range opts {
		if o == nil {
			a.problems = append(a.problems, fmt.Errorf("option %d is nil", i))
			continue
		}
		o(a)
	}
	form, errs := a.transferOptions.configure(a.settings.ToolChoice == agent.TransferTool)
	a.form, errs = form, append(a.problems, errs...)
	a.children = agent.AgentsOf(a.properties.Edges)
	errs = append(errs, a.checkOptions()...)
	var wrong []error
	a.own, wrong = newKit(a)
	a.properties.TransferCall, a.properties.Stepwise = a.own.transferCall, true
	a.properties.TransferApproval, a.properties.ViewByFunction = a.askTransfer, a.history.ByFunction()
	for _, t := range a.tools {
		if h, ok := t.(tools.Host); ok {
			a.properties.Inner = append(a.properties.Inner, h.InnerAgents()...)
		}
	}
	return append(errs, wrong...)
}

// checkOptions returns what is wrong with the values of options.
func (a *Agent) checkOptions() (errs []error) {
	if err := agent.CheckName(a.name); err != nil {
		errs = append(errs, err)
	}
	if a.parallel < 1 {
		errs = append(errs, fmt.Errorf("%d tools in parallel: at least 1 is needed", a.parallel))
	}
	if a.maxTools < 0 {
		errs = append(errs, fmt.Errorf("at most %d tools: the number is negative", a.maxTools))
	}
	for _, err := range []error{
		a.compaction.check(a.settings.MaxTokens), errors.Join(a.transferBy.Check(), a.approver.Check()), a.decision.check(), a.output.checkSettings(a.settings),
	} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for i, c := range a.children {
		if c == nil {
			errs = append(errs, fmt.Errorf("sub-agent %d is nil", i))
		}
	}
	for i, s := range a.sets {
		if s == nil {
			errs = append(errs, fmt.Errorf("toolset %d is nil", i))
		}
	}
	return errs
}

// Name implements agent.Agent.
func (a *Agent) Name() string { return a.name }

// Description implements agent.Agent.
func (a *Agent) Description() string { return a.description }

// SubAgents implements agent.Agent.
func (a *Agent) SubAgents() []agent.Agent { return a.children }

// FindAgent implements agent.Agent.
func (a *Agent) FindAgent(name string) agent.Agent { return a.index[name] }

// Properties returns what the tree and the runner need to know about the agent.
func (a *Agent) Properties() agent.Properties { return a.properties }

// Model returns the agent's model.
func (a *Agent) Model() llm.Model { return a.model }

// Instructions returns the instructions given to New, even if [WithInstructionFunc] replaces them.
func (a *Agent) Instructions() string { return a.prompt }

// History returns the agent's own view policy, as [WithHistory] sets it.
func (a *Agent) History() view.Policy { return a.history }

// OutputSchema returns the JSON schema of the agent's answers, nil without [WithOutput].
func (a *Agent) OutputSchema() json.RawMessage {
	if a.output == nil {
		return nil
	}
	return a.output.format.Schema
}

// Tools returns the agent's tools without the built-in transfer tool and without those of sets.
func (a *Agent) Tools() []tools.Tool { return a.tools }

// Decide returns the decision of the agent's rules and of the tool itself about a call of one of its tools with an
// input. n is the agent's place in the tree. why is the mistake in the rules because of which the tool must not run, or
// "".
func (a *Agent) Decide(ctx context.Context, n *agent.Node, t tools.Tool, input json.RawMessage) (d tools.Decision, why string) {
	if len(a.sets) > 0 {
		if refused, _ := a.forbiddenTools(ctx, n, []tools.Tool{t}); len(refused) > 0 {
			return tools.Deny, refused[t.Info().Name]
		}
	}
	return a.rules.Decide(t.Info(), input), ""
}

// Toolsets returns the sets of tools that the agent has in addition to its Tools.
func (a *Agent) Toolsets() []tools.Set { return a.sets }

// Window returns the size of the largest request of the agent in tokens, by its [Compaction] and the length of its
// answers, or 0 if that is unknown.
func (a *Agent) Window() int {
	if a.compaction == nil {
		return 0
	}
	return a.compaction.Window - a.settings.MaxTokens
}

// CheckNode implements agent.Checker: a tool must not have the name of an agent that can
// be transferred to, the tools for transfers need names of their own, and each rule about
// tools must match an existing one.
func (a *Agent) CheckNode(n *agent.Node) (problems []string) {
	form, targets := a.own.formFor(n), targetNames(n)
	for _, name := range targets {
		if a.own.has(name) || form.Name == name {
			problems = append(problems, fmt.Sprintf("the tool %q of agent %q is named like an agent it can transfer to", name, a.name))
		}
	}
	problems = append(problems, form.Check(targets, a.own.has)...)
	if wrong := a.TooManyTools(n, len(a.tools)); wrong != nil {
		problems = append(problems, wrong.Error())
	}
	return slices.Concat(problems, checkShared(a, n), a.checkRules(n))
}

// TooManyTools returns an error with the counts if the agent, in its place, would offer more tools than its endpoint
// accepts. own is the number of its tools without those for transfers.
func (a *Agent) TooManyTools(n *agent.Node, own int) error { return a.own.tooMany(n, own) }

// Transfer reads a call of the agent's model as a transfer. n is the agent's place in a tree. ok is false for a call
// of another tool and for a call without a valid target argument.
func (a *Agent) Transfer(n *agent.Node, c llm.ToolCall) (transfer.Call, bool) {
	target, ok := a.own.transferTo(n, c.Name)
	if !ok {
		return transfer.Call{}, false
	}
	input := event.ObjectInput(c.Arguments)
	if target != "" {
		input = transfer.Input(target, input)
	}
	call, err := transfer.Parse(input)
	return call, err == nil
}

// NextRequest returns the request that the agent would send now, and its model: the agent's own, or the model that
// decides which agent answers.
func (a *Agent) NextRequest(ctx context.Context, inv *agent.Invocation) (llm.Model, *llm.Request, error) {
	x := &execution{ctx: ctx, inv: inv}
	if _, err := x.begin(a); err != nil {
		return nil, nil, err
	}
	if err := x.openView(); err != nil {
		return nil, nil, err
	}
	if c := x.chooser(); c != nil {
		req, err := c.request()
		return c.model, req, err
	}
	req, err := x.request()
	return a.model, req, err
}

// Run implements agent.Agent. It runs one step: it asks the model once, or runs the tools of the last answer.
func (a *Agent) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		x := &execution{ctx: ctx, inv: inv, yield: yield}
		x.yieldError(x.step(a))
	}
}

// step runs the open calls, shortens the view, asks which agent answers, or asks the agent's model.
func (x *execution) step(a *Agent) error {
	if err := x.openStep(a); err != nil {
		return err
	}
	if calls := x.view.Pending(); len(calls) > 0 {
		return x.runTools(calls)
	}
	if err := x.checkRepeats(); err != nil {
		return err
	}
	if a.compaction != nil {
		if compacted, err := (&compactor{x, a.compaction}).beforeAnswer(); compacted || err != nil {
			return err
		}
	}
	failure := x.answer()
	if failure == nil || errors.Is(failure, errStopped) {
		return failure
	}
	if compacted, err := (&compactor{x, a.compaction}).afterFailure(failure); compacted || err != nil {
		return err
	}
	return failure
}

// openStep sets the kit, opens the view, and yields notices about the tools.
func (x *execution) openStep(a *Agent) error {
	notices, err := x.begin(a)
	if err == nil && a.split {
		err = x.checkPassed()
	}
	if err == nil {
		err = x.openView()
	}
	if err != nil {
		return err
	}
	if x.run.Answered { // the run has reported the notices
		notices = nil
	} else if cut := x.template(x.inv.Node()).shortened; len(cut) > 0 {
		notices = append(slices.Clip(notices), fmt.Sprintf("the model sees the first %d characters of the descriptions of these tools, because endpoints refuse longer ones: %s", maxDescription-1, strings.Join(cut, ", ")))
	}
	return x.notify(append(slices.Clip(notices), x.returnedSets()...))
}

// answer asks which agent answers, if that is open, or else asks the agent's model for its answer.
func (x *execution) answer() error {
	if c := x.chooser(); c != nil {
		return c.choose()
	}
	return x.ask()
}

// checkPassed returns an error if the model's part of a split agent cannot run here.
func (x *execution) checkPassed() error {
	if x.inv.Scope() == "" {
		return fmt.Errorf("agent %s passes its calls on to another node: it runs in a graph only", x.agent.name)
	}
	_, err := readSplit(x.inv.Input())
	return err
}
