package agentfile

import (
	"errors"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/summarize"
)

// builtin are the tools that need no registration.
func builtin() []string { return []string{summarize.Name} }

func (l *loader) checkTools(d *definition) {
	known := append(l.registry.Names(), builtin()...)
	targets := d.targets()
	var callable []string
	for _, t := range d.tools {
		callable = append(callable, t.value)
		switch {
		case t.value == agent.TransferTool:
			l.report.add(d.file, t.at, "%s is built in: every agent that has somebody to transfer to has it; remove it from the list", t.value)
		case !slices.Contains(known, t.value):
			l.report.add(d.file, t.at, "there is no tool %q%s", t.value, didYouMean(t.value, known))
		case slices.Contains(targets, t.value):
			l.report.add(d.file, t.at, "the tool %q has the name of an agent that %q can transfer to: rename one of them", t.value, d.name)
		}
	}
	if len(targets) > 0 {
		callable = append(callable, agent.TransferTool)
	}
	choice := string(d.settings.ToolChoice)
	modes := []string{string(llm.ToolChoiceAuto), string(llm.ToolChoiceNone), string(llm.ToolChoiceRequired)}
	if choice != "" && !slices.Contains(modes, choice) && !slices.Contains(callable, choice) {
		l.report.add(d.file, d.at["settings.tool_choice"], "tool_choice %q is neither auto, none nor required, nor a tool of this agent%s",
			choice, didYouMean(choice, append(modes, callable...)))
	}
}

// targets returns whom the agent may transfer to, by the rule of agent.Node.
func (d *definition) targets() (names []string) {
	for _, e := range d.children {
		names = append(names, e.child.name)
	}
	for _, e := range d.parents {
		if d.policy.AllowTransferToParent {
			names = append(names, e.parent.name)
		}
		for _, peer := range e.parent.children {
			if d.policy.AllowTransferToPeers && peer.child != d {
				names = append(names, peer.child.name)
			}
		}
	}
	return names
}

// checkModel resolves the agent's model. That the default model is not to be had
// is no file's fault, and is reported once by check.
func (l *loader) checkModel(d *definition) {
	if l.model == nil {
		return
	}
	_, known := l.models[d.model]
	if _, failed := l.failed[d.model]; !known && !failed {
		m, err := l.model(d.model)
		if err == nil && m == nil {
			err = errors.New("the program has no such model")
		}
		if err != nil {
			l.failed[d.model] = err
		} else {
			l.models[d.model] = m
		}
	}
	if err := l.failed[d.model]; err != nil && d.model != "" {
		l.report.add(d.file, d.at["model"], "the model %q cannot be used: %s", d.model, err)
	}
}

func (l *loader) load() (*Tree, error) {
	if l.model == nil {
		return nil, errors.New("agentfile: agents need a model: use WithModel")
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	t := &Tree{sources: map[string]Source{}}
	root := l.build(l.root, t)
	if err := l.report.err(); err != nil {
		return nil, err
	}
	index, err := agent.NewTree(root)
	var invalid *agent.TreeError
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			s := t.sources[p.Agent]
			l.report.problems = append(l.report.problems, Problem{File: s.File, Line: s.Line, Message: p.Message})
		}
		return nil, l.report.err()
	}
	t.index = index
	return t, err
}

// build makes an agent and its sub-agents. A problem is reported, and the agent
// is then nil.
func (l *loader) build(d *definition, t *Tree) agent.Agent {
	t.sources[d.name] = Source{l.report.given(d.file), d.pos().line}
	var children []agent.Agent
	for _, e := range d.children {
		if child := l.build(e.child, t); child != nil {
			children = append(children, child)
		}
	}
	model := l.models[d.model]
	list := make([]tools.Tool, 0, len(d.tools))
	for _, i := range d.tools {
		tool := l.registry.Get(i.value)
		if tool == nil { // check has seen that it is the built-in one
			var err error
			if tool, err = summarize.New(model); err != nil {
				l.report.add(d.file, i.at, "%s", err)
				return nil
			}
		}
		list = append(list, tool)
	}
	a, err := llmagent.New(d.name, d.body, model,
		llmagent.WithDescription(d.description), llmagent.WithTools(list...), llmagent.WithSubAgents(children...),
		llmagent.WithTransferPolicy(d.policy), llmagent.WithSettings(d.settings), llmagent.WithHistory(d.history))
	if err != nil {
		l.report.add(d.file, d.pos(), "%s", err)
		return nil
	}
	return a
}
