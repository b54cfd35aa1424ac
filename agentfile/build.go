package agentfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/summarize"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/workflowagent"
)

// builtin returns the names of the tools that need no registration.
func builtin() []string { return []string{summarize.Name, workflowagent.ExitToolName} }

// checkDefinition reports the problems of an agent whose place in the tree is known.
func (l *loader) checkDefinition(r *report, d *definition) {
	switch {
	case d.broken:
	case d.isGraph:
		if d.graph != "" {
			l.graphAt(r, d.graph, d.file, d.at["graph"])
		}
	case d.isRemote:
		l.checkRemote(r, d)
	case d.router != nil:
		l.checkRouter(r, d)
	case d.isWorkflow():
		l.checkWorkflow(r, d)
	default:
		l.checkTools(r, d)
		l.checkModel(r, d)
		d.checkCompaction(r)
		for _, i := range d.state {
			if !strings.Contains(d.body, "{"+i.value+"}") && !strings.Contains(d.body, "{"+i.value+"?}") {
				r.add(d.file, i.at, "state names %q, and the body does not hold {%s}", i.value, i.value)
			}
		}
	}
}

func (l *loader) checkTools(r *report, d *definition) {
	known := append(l.registry.Names(), builtin()...)
	targets := d.targets()
	for _, t := range d.tools {
		switch {
		case t.value == agent.TransferTool:
			r.add(d.file, t.at, "%s is built in: every agent that can transfer has it; remove it from the list", t.value)
		case !slices.Contains(known, t.value):
			r.add(d.file, t.at, "there is no tool %q%s", t.value,
				cmp.Or(nearest.Hint(t.value, known), ": tools are functions in Go, and the program registers those that files can name"))
		case slices.Contains(targets, t.value):
			r.add(d.file, t.at, "the tool %q has the name of an agent that %q can transfer to: rename one of them", t.value, d.name)
		}
	}
	for _, wrong := range transfer.DefaultForm(d.form).Check(targets, d.owns) {
		r.add(d.file, cmp.Or(d.at["transfer.tools"], d.pos()), "%s", wrong)
	}
	l.checkToolRules(r, d)
	l.toolsets(r, d)
	d.checkRoutes(r)
	if wrong := l.toolChoice(d); wrong != "" {
		r.add(d.file, d.at["settings.tool_choice"], "tool_choice %s", wrong)
	}
}

// toolChoice returns what is wrong with an agent's tool choice, or "".
func (l *loader) toolChoice(d *definition) string {
	callable := append(valuesOf(d.tools), d.transfers().Names(d.targets())...)
	choice := string(d.settings.ToolChoice)
	modes := []string{string(llm.ToolChoiceAuto), string(llm.ToolChoiceNone), string(llm.ToolChoiceRequired)}
	if choice == "" || slices.Contains(modes, choice) || slices.Contains(callable, choice) || len(d.mcp) > 0 {
		return ""
	}
	return fmt.Sprintf("%q is neither auto, none nor required, nor a tool of this agent%s", choice, nearest.Hint(choice, append(modes, callable...)))
}

// transfers returns the form in which the agent's model sees the agents that it may transfer to, by the same rule as
// llmagent.
func (d *definition) transfers() transfer.Form {
	if len(d.tools)+len(d.targets()) > cmp.Or(d.maxTools, llmagent.DefaultMaxTools) {
		return transfer.DefaultForm(transfer.OneTool)
	}
	if each := transfer.DefaultForm(transfer.ToolPerTarget); d.form == transfer.ToolPerTarget ||
		d.form == 0 && d.settings.ToolChoice != agent.TransferTool && d.smallModels() && len(each.Check(d.targets(), d.owns)) == 0 {
		return each
	}
	return transfer.DefaultForm(transfer.OneTool)
}

// smallModels reports whether the profile for small models applies to the agent, by its own key or that of an ancestor.
// It also ends if files name each other in a cycle, which is a problem reported elsewhere.
func (d *definition) smallModels() bool {
	for seen := map[*definition]bool{}; !seen[d]; d = d.parents[0].parent {
		if d.small || len(d.parents) == 0 {
			return d.small
		}
		seen[d] = true
	}
	return false
}

// inherited returns the agent's settings, with the endpoints, reasoning and timeouts that it inherits from its
// ancestors.
func (d *definition) inherited() llm.Settings {
	s := d.settings
	for seen := map[*definition]bool{}; !seen[d]; d = d.parents[0].parent {
		if len(s.Endpoint) == 0 {
			s.Endpoint = d.settings.Endpoint
		}
		s.Timeouts = s.Timeouts.Or(d.settings.Timeouts)
		s.Echo, s.Thinking, s.ReasoningEffort = cmp.Or(s.Echo, d.settings.Echo), cmp.Or(s.Thinking, d.settings.Thinking), cmp.Or(s.ReasoningEffort, d.settings.ReasoningEffort)
		if len(d.parents) == 0 {
			break
		}
		seen[d] = true
	}
	return s
}

// owns reports whether a listed tool has this name.
func (d *definition) owns(name string) bool {
	return slices.ContainsFunc(d.tools, func(t item) bool { return t.value == name })
}

// targets returns the names of the agents that the agent may transfer to, by the rule of agent.Node.
func (d *definition) targets() []string {
	return namesOf(d.near(d.policy.AllowTransferToParent, d.policy.AllowTransferToPeers))
}

// checkModel resolves the agent's models. An unavailable default model is not the fault of a file; check reports it
// once.
func (l *modelCache) checkModel(r *report, d *definition) {
	models := append([]item{{value: d.model, at: d.at["model"]}}, d.fallbacks...)
	if d.decide != nil && d.decide.model != "" {
		models = append(models, item{value: d.decide.model, at: d.at["transfer.decide.model"]})
	}
	if d.compaction != nil && d.compaction.summarizer != "" {
		models = append(models, item{value: d.compaction.summarizer, at: d.at["compaction.summarizer"]})
	}
	for _, i := range models {
		if _, err := l.modelOf(i.value); err != nil && i.value != "" {
			r.add(d.file, i.at, "the model %q cannot be used: %s", i.value, err)
		}
	}
}

// modelOf returns the model with a name. It resolves each name once.
func (l *modelCache) modelOf(name string) (llm.Model, error) {
	if l.model == nil {
		return absentModel(name), nil
	}
	if l.models[name] == nil && l.failed[name] == nil {
		m, err := l.model(name)
		if err == nil && m == nil {
			err = errors.New("the program has no such model")
		}
		l.models[name], l.failed[name] = m, err
	}
	if l.failed[name] != nil && name == "" && l.tolerant {
		return absentModel(name), nil
	}
	return l.models[name], l.failed[name]
}

// chainOf returns the model of an agent. Agents with the same list of models share one chain, and so its knowledge of
// failures.
func (l *modelCache) chainOf(d *definition) (llm.Model, error) {
	names := append([]string{d.model}, valuesOf(d.fallbacks)...)
	models := make([]llm.Model, len(names))
	for i, name := range names {
		var err error
		if models[i], err = l.modelOf(name); err != nil {
			if name == "" {
				return nil, fmt.Errorf("the default model cannot be used: %w", err)
			}
			return nil, fmt.Errorf("the model %q cannot be used: %w", name, err)
		}
	}
	if len(models) == 1 {
		return models[0], nil
	}
	of := strings.Join(names, "\x00")
	if l.chains[of] == nil {
		chain, err := policy.NewFallback(models)
		if err != nil {
			return nil, err
		}
		l.chains[of] = chain
	}
	return l.chains[of], nil
}

// absentModel takes the place of a model if models are not checked, or if a missing one is reported later.
type absentModel string

func (m absentModel) Name() string { return string(m) }

func (m absentModel) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "agentfile: the agent was made without a model"})
	}
}

func (l *loader) load() (*Tree, error) {
	if l.model == nil {
		return nil, errors.New("agentfile: agents need a model: use WithModel")
	}
	err := l.check()
	if err == nil {
		err = l.changed()
	}
	t := &Tree{sources: map[string]Source{}}
	if err == nil {
		root := l.build(&l.report, l.root, t.sources)
		err = l.index(t, root)
	}
	t.given, t.made = l.report.given, l.made
	if t.closers = l.closers; err == nil {
		return t, nil
	}
	if closing := t.Close(); closing != nil {
		err = errors.Join(err, closing)
	}
	return nil, err
}

// index builds the tree and reports its problems.
func (l *loader) index(t *Tree, root agent.Agent) error {
	if err := l.report.err(); err != nil {
		return err
	}
	var opts []agent.TreeOption
	if l.people {
		opts = append(opts, agent.WithHuman(human.NewAgent(human.Log{}))) // the runner sets its own desk
	}
	index, err := agent.NewTree(root, opts...)
	var invalid *agent.TreeError
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			s := t.sources[p.Agent]
			l.report.problems = append(l.report.problems, Problem{File: s.File, Line: s.Line, Message: p.Message})
		}
		return l.report.err()
	}
	t.index = index
	return err
}

// build makes an agent and its sub-agents. After a problem, it reports the problem and returns nil.
func (l *loader) build(r *report, d *definition, sources map[string]Source) agent.Agent {
	sources[d.name] = Source{r.given(d.file), d.pos().line}
	var a agent.Agent
	var err error
	switch {
	case d.isGraph:
		a, err = l.graphs[d.graph].agent(d)
	case d.isRemote:
		a, err = l.remoteAgent(d)
	case d.router != nil:
		a, err = l.routerAgent(r, d, sources)
	case d.isWorkflow():
		a, err = l.workflowAgent(r, d, sources)
	default: // handles guards and budgets itself
		a, err = l.llmAgent(r, d, sources)
	}
	if !d.hasModel() {
		a = l.extend(a, d)
	}
	if err != nil {
		r.add(d.file, d.pos(), "%s", err)
		return nil
	}
	return asRoot(a, d)
}

func (l *loader) llmAgent(r *report, d *definition, sources map[string]Source) (agent.Agent, error) {
	var children []agent.Agent
	for _, e := range d.children {
		if child := l.build(r, e.child, sources); child != nil {
			children = append(children, child)
		}
	}
	model, err := l.chainOf(d)
	if err != nil {
		return nil, err
	}
	list := make([]tools.Tool, 0, len(d.tools))
	for _, i := range d.tools {
		tool := l.registry.Get(i.value)
		if tool == nil { // a built-in tool; check refused all others
			if i.value == workflowagent.ExitToolName {
				tool, err = workflowagent.ExitTool()
			} else {
				tool, err = summarize.New(model)
			}
			if err != nil {
				return nil, err
			}
		}
		list = append(list, tool)
	}
	settings := d.inherited()
	if f := settings.ResponseFormat; f != nil {
		settings.ResponseFormat = &llm.ResponseFormat{Name: d.name, Schema: f.Schema}
	}
	opts, err := l.decision(d)
	if err != nil {
		return nil, fmt.Errorf("the model %q cannot be used: %w", d.decide.model, err)
	}
	policy, err := d.toolPolicy()
	if err != nil {
		return nil, err
	}
	if policy != nil {
		opts = append(opts, llmagent.WithToolPolicy(policy))
	}
	if d.askTransfer {
		opts = append(opts, llmagent.WithTransferApproval(d.transferBy))
	}
	opts = append(opts, llmagent.WithApprover(d.approver))
	if d.small {
		opts = append(opts, llmagent.WithSmallModels())
	}
	if d.compaction != nil {
		o, err := l.compactionOf(d, model)
		if err != nil {
			return nil, fmt.Errorf("the model %q cannot be used: %w", d.compaction.summarizer, err)
		}
		opts = append(opts, o)
	}
	opts = append(opts, llmagent.WithRoutes(l.onStop(d)...), llmagent.WithGuards(l.guardsOf(d)...), llmagent.WithBudgets(d.budgets))
	if d.withState {
		opts = append(opts, llmagent.WithStateInInstructions(valuesOf(d.state)...))
	}
	made, err := llmagent.New(d.name, d.body, model, append(opts,
		llmagent.WithDescription(d.description), llmagent.WithGlobalInstruction(d.global), llmagent.WithTools(list...), llmagent.WithToolset(l.toolsets(r, d)...), llmagent.WithSubAgents(children...),
		llmagent.WithTransferPolicy(d.policy), llmagent.WithTransferTools(d.form), llmagent.WithMaxTools(d.maxTools), llmagent.WithSettings(settings), llmagent.WithHistory(d.history))...)
	if err != nil {
		return nil, err
	}
	l.made = append(l.made, madeAgent{made, d})
	return made, nil
}
