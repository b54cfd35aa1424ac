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

// Agent is an LLM agent. It is immutable and safe for concurrent use.
type Agent struct {
	name         string
	description  string
	prompt       string          // as given to New
	instructions InstructionFunc // returns the prompt unless an option says otherwise
	model        llm.Model
	tools        []tools.Tool
	byName       map[string]tools.Tool
	properties   agent.Properties
	index        map[string]agent.Agent // of the subtree
	children     []agent.Agent
	wording      wording // of transfers, by options
	form         transfer.Form
	settings     llm.Settings
	history      view.Policy
	parallel     int
	maxTools     int // 0: DefaultMaxTools
	rules        *tools.Policy
	askTransfer  bool
	transferBy   tools.By    // who may decide about a transfer that waits
	approver     tools.By    // and where nothing else says it
	compaction   *compaction // nil: never
	decides      *deciding   // nil: its own model does, by calling the transfer tool
	output       *output     // nil: words
	noFunction   bool        // an option gave none
	split        bool        // it asks its model, and passes the calls on
	withState    bool        // the prompt names keys of the state
	stateKeys    []string    // if not all of them

	ownView any // the memo key of the view of the user's conversation

	sets       []tools.Set
	equipped   bool              // with the tools of sets, see equip
	lacks      []string          // the sets that have no tools now
	refused    map[string]string // tools that must not run, and why
	offers     *sync.Map         // *agent.Node → *offer: all that a place in a tree has
	equipments *sync.Map         // *agent.Node → *equipment: the agent with the tools of its sets
}

// InstructionFunc returns the system prompt for one invocation. An error ends
// the run.
type InstructionFunc func(ctx context.Context, inv *agent.Invocation) (string, error)

// Option configures an Agent.
type Option func(*Agent)

// WithDescription tells other agents what this one is for.
func WithDescription(d string) Option { return func(a *Agent) { a.description = d } }

// WithTools gives the agent's model tools, in this order.
func WithTools(t ...tools.Tool) Option { return func(a *Agent) { a.tools = append(a.tools, t...) } }

// WithSubAgents gives the agent children. Wrap one in agent.Via to put options
// on the edge to it.
func WithSubAgents(children ...agent.Agent) Option {
	return func(a *Agent) { a.properties.Edges = append(a.properties.Edges, agent.EdgesOf(children)...) }
}

// WithTransferPolicy allows transfers to the parent and to peers.
func WithTransferPolicy(p agent.TransferPolicy) Option {
	return func(a *Agent) { a.properties.Policy = p }
}

// WithSmallModels is for models that run on a laptop. It holds for the agent and for all LLM agents
// under it, and changes how transfers are shown to them: each target has a tool of its own, an
// agent that a transfer has put in charge is offered only its children for the rest of its run
// (agent.TransferPolicy.HoldOnArrival alone ends when a tool has answered), and each run begins with the question of
// [WithDecision]. Options of an agent of its own, for the tools and for the question, come first.
func WithSmallModels() Option { return func(a *Agent) { a.properties.SmallModels = true } }

// WithReturn says who answers the next message after this agent has answered.
func WithReturn(p agent.ReturnPolicy) Option {
	return func(a *Agent) { a.properties.Return = p }
}

// WithRoutes gives the agent ways on that need no model: agent.OnStop.
func WithRoutes(routes ...agent.Route) Option {
	return func(a *Agent) { a.properties.Routes = append(a.properties.Routes, routes...) }
}

// WithGuards checks what the agent receives and what it says.
func WithGuards(guards ...agent.Guard) Option {
	return func(a *Agent) { a.properties.Guards = append(a.properties.Guards, guards...) }
}

// WithBudgets bounds what the agent may spend, and what everybody may if it is the root.
func WithBudgets(b agent.Budgets) Option {
	return func(a *Agent) { a.properties.Budgets = b }
}

// WithInstructionFunc makes the system prompt a function of the invocation; the
// text given to New is then unused.
func WithInstructionFunc(f InstructionFunc) Option {
	return func(a *Agent) { a.instructions, a.noFunction = f, f == nil }
}

// WithGlobalInstruction sets the text that precedes the own instructions of this agent
// and of all LLM agents under it; global instructions from further up come before it. Use
// it for what all of them have to know, above all if that is long. The requests of a tree
// then begin with the same text, and an endpoint with a prompt cache need not compute it
// again when the conversation moves. The agents of a graph and those behind an agent tool
// are trees of their own, and do not get it.
func WithGlobalInstruction(text string) Option {
	return func(a *Agent) { a.properties.GlobalInstruction = text }
}

// WithSettings tunes the generation: temperature, token limit, tool choice, stop
// strings, response format. A tool choice that forces calls, required or the name of a
// tool, holds until the results of the run's first calls are there. From then on
// the model is free to answer.
func WithSettings(s llm.Settings) Option { return func(a *Agent) { a.settings = s } }

// WithHistory says how much of the conversation the model sees; view.Full is
// the default.
func WithHistory(p view.Policy) Option { return func(a *Agent) { a.history = p } }

// WithToolPolicy decides by rules which calls run, wait for an approval, or are
// denied, besides what the tools themselves demand.
func WithToolPolicy(p *tools.Policy) Option { return func(a *Agent) { a.rules = p } }

// WithTransferApproval makes every transfer of the agent wait for an approval. By says who may
// give it, as that of [tools.NeedsApproval] does.
func WithTransferApproval(by ...tools.By) Option {
	return func(a *Agent) { a.askTransfer, a.transferBy = true, tools.Strictest(by...) }
}

// WithApprover says who may decide about the calls and transfers of the agent that wait, where
// the tool, the rule or the transfer leaves it open.
func WithApprover(by tools.By) Option { return func(a *Agent) { a.approver = by } }

// WithParallelTools bounds how many tools of one answer run at once; the
// default is 8, and 1 runs them one after the other.
func WithParallelTools(n int) Option { return func(a *Agent) { a.parallel = n } }

// New makes an agent. The error names the agent and everything that is wrong
// with it. Names of tools are checked against transfer targets when the tree is
// built.
func New(name, instructions string, model llm.Model, opts ...Option) (*Agent, error) {
	a := &Agent{name: name, prompt: instructions, model: model}
	errs := a.configure(opts)
	switch {
	case a.noFunction:
		errs = append(errs, errors.New("the instruction function is nil"))
	case a.withState && a.instructions != nil:
		errs = append(errs, errors.New("the state is put into the instructions given to New, and an option sets a function in their place"))
	case a.withState:
		errs = append(errs, a.useState()...)
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

// configure applies options, and returns everything that is wrong with the agent then.
func (a *Agent) configure(opts []Option) (errs []error) {
	a.ownView, a.parallel = viewKey{a.name, ""}, 8
	a.offers, a.equipments = new(sync.Map), new(sync.Map)
	for i, o := range opts {
		if o == nil {
			errs = append(errs, fmt.Errorf("option %d is nil", i))
			continue
		}
		o(a)
	}
	errs = append(errs, a.shapeTransfers()...)
	a.properties.TransferCall, a.properties.Stepwise = a.transferCall, true
	a.children = agent.AgentsOf(a.properties.Edges)
	a.byName = make(map[string]tools.Tool, len(a.tools))
	if err := agent.CheckName(a.name); err != nil {
		errs = append(errs, err)
	}
	if a.parallel < 1 {
		errs = append(errs, fmt.Errorf("%d tools in parallel: at least 1 is needed", a.parallel))
	}
	if a.maxTools < 0 {
		errs = append(errs, fmt.Errorf("at most %d tools: the number is negative", a.maxTools))
	}
	if err := a.compaction.check(a.settings.MaxTokens); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(a.transferBy.Check(), a.approver.Check()); err != nil {
		errs = append(errs, err)
	}
	if err := a.decides.check(); err != nil {
		errs = append(errs, err)
	}
	if err := a.output.configured(a.settings); err != nil {
		errs = append(errs, err)
	}
	for i, c := range a.children {
		if c == nil {
			errs = append(errs, fmt.Errorf("sub-agent %d is nil", i))
		}
	}
	for i, s := range a.sets {
		if s == nil {
			errs = append(errs, fmt.Errorf("set of tools %d is nil", i))
		}
	}
	for i, t := range a.tools {
		if t == nil {
			errs = append(errs, fmt.Errorf("tool %d is nil", i))
			continue
		}
		switch n := t.Info().Name; {
		case n == agent.TransferTool, n == a.form.Name:
			errs = append(errs, fmt.Errorf("the tool name %s is reserved", n))
		case tools.CheckName(n) != nil:
			errs = append(errs, tools.CheckName(n))
		case a.byName[n] != nil:
			errs = append(errs, fmt.Errorf("there are two tools %q", n))
		default:
			a.byName[n] = t
		}
		if h, ok := t.(tools.Host); ok {
			a.properties.Inner = append(a.properties.Inner, h.InnerAgents()...)
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

// Properties returns what the tree and the runner have to know of the agent.
func (a *Agent) Properties() agent.Properties { return a.properties }

// Model returns the agent's model.
func (a *Agent) Model() llm.Model { return a.model }

// Instructions returns the text that New was given. A function in its place is not asked.
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

// Tools returns the agent's tools, the built-in transfer tool not among them.
func (a *Agent) Tools() []tools.Tool { return a.tools }

// Run implements agent.Agent: one model answer, or the tools of the last one.
func (a *Agent) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		a, problems, err := a.withTools(ctx, inv)
		if err != nil {
			yield(nil, err)
			return
		}
		if a.split {
			_, err := readPassed(inv.Input())
			if inv.Scope() == "" {
				err = fmt.Errorf("agent %s passes its calls on to another node: it runs in a graph only", a.name)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
		v, err := a.view(ctx, inv)
		if err != nil {
			yield(nil, err)
			return
		}
		if v.Run().Answered { // a run says it once
			problems = nil
		} else if cut := a.place(inv.Node()).cut; len(cut) > 0 {
			problems = append(slices.Clip(problems), fmt.Sprintf("the model sees the first %d characters of the descriptions of these tools, because endpoints refuse longer ones: %s", maxDescription-1, strings.Join(cut, ", ")))
		}
		if !tell(append(slices.Clip(problems), a.arrived(inv)...), yield) {
			return
		}
		if calls := v.Pending(); len(calls) > 0 {
			a.runTools(ctx, inv, v.Run(), calls, yield)
			return
		}
		if err := a.checkRepeats(inv, v.Run()); err != nil {
			yield(nil, err)
			return
		}
		if a.compaction != nil {
			a.askWithin(ctx, inv, v, yield)
			return
		}
		a.ask(ctx, inv, v, yield)
	}
}

type viewKey struct{ agent, scope string }

func (a *Agent) viewKey(n *agent.Node, scope string) any {
	if scope == "" {
		return a.ownView // boxed once
	}
	return viewKey{n.Agent.Name(), scope} // in a workflow the agent may have another name
}

// view returns the agent's view of the running scope, brought up to date with
// what was stored since it was last looked at.
func (a *Agent) view(ctx context.Context, inv *agent.Invocation) (*view.View, error) {
	s := inv.Session()
	create := a.place(inv.Node()).view // made once
	if scope := inv.Scope(); scope != "" {
		n := inv.Node()
		create = func() any { return a.newView(n, scope) }
	}
	v := s.Memo(a.viewKey(inv.Node(), inv.Scope()), create).(*view.View)
	if err := v.Begin(ctx, inv); err != nil {
		return nil, err
	}
	return v, v.CatchUp(s.Events(ctx, v.Seq()))
}

func (a *Agent) newView(n *agent.Node, scope string) *view.View {
	v := view.New(n, a.history, scope)
	if a.split {
		v.Read(readMessages)
	}
	if a.compaction != nil {
		v.Count(a.compaction.Count)
	}
	return v
}

// Asks returns the model that would be asked now, which may be the one that decides who
// answers, and what.
func (a *Agent) Asks(ctx context.Context, inv *agent.Invocation) (llm.Model, *llm.Request, error) {
	a, _, err := a.withTools(ctx, inv)
	if err != nil {
		return nil, nil, err
	}
	v, err := a.view(ctx, inv)
	if err != nil {
		return nil, nil, err
	}
	if d := a.deciding(inv.Node(), v.Run()); d != nil {
		req, err := a.whoRequest(ctx, inv, v, d, a.candidates(inv, v.Run()))
		return d.asks(a), req, err
	}
	req, err := a.request(ctx, inv, v.Run(), v.Filled(ctx, inv.Session().File))
	return a.model, req, err
}

// Window returns how many tokens a request of the agent may have, by its [Compaction] and the length of its answers; 0
// if that is not known.
func (a *Agent) Window() int {
	if a.compaction == nil {
		return 0
	}
	return a.compaction.Window - a.settings.MaxTokens
}

// system returns the system text: the instructions, and what the model reads of transfers.
func (a *Agent) system(ctx context.Context, inv *agent.Invocation, o *offer, transfers string) (string, error) {
	system, err := a.instructions(ctx, inv)
	switch {
	case err != nil:
		return "", fmt.Errorf("instructions: %w", err)
	case system == o.prompt && transfers == o.transfer:
		return o.system, nil
	}
	return paragraphs(paragraphs(o.global, system), transfers), nil
}

func (a *Agent) request(ctx context.Context, inv *agent.Invocation, run view.Run, messages []llm.Message) (*llm.Request, error) {
	o := a.offered(inv.Node(), run)
	transfers := o.transfer
	if run.From != "" {
		transfers = transfer.WithReason(transfers, run.Reason)
	}
	system, err := a.system(ctx, inv, o, transfers)
	if err != nil {
		return nil, err
	}
	settings := a.settings
	if settings.LeakedCalls == "" && inv.Node().SmallModels() {
		settings.LeakedCalls = llm.LeakedCallsAny
	}
	req := &llm.Request{System: system, Messages: messages, Tools: o.tools, Known: a.place(inv.Node()).named(), Stream: inv.Streaming(), Agent: inv.Node().Path, Settings: settings}
	switch {
	case len(o.tools) == 0:
		req.ToolChoice, req.ParallelToolCalls = "", nil
	case run.Called && req.ToolChoice != llm.ToolChoiceNone && req.ToolChoice != llm.ToolChoiceAuto: // else the model could never answer
		req.ToolChoice = ""
	case !o.has(req.ToolChoice) && (a.place(inv.Node()).has(req.ToolChoice) || a.equipped && !req.ToolChoice.Mode()): // endpoints refuse the name of a tool that is not there
		req.ToolChoice = ""
	}
	a.output.ask(req, run.Misfit)
	if len(o.tools) > a.mostTools() {
		return nil, &agent.RunError{Agent: a.name, Code: "too_many_tools", Err: a.TooManyTools(inv.Node(), len(a.tools))}
	}
	return req, nil
}
