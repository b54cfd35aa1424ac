package llmagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// template is the part of a request to an agent's model that does not depend on the messages. There is a full template
// for the agent's place in a tree, and a smaller one for each state of a run in which not all transfers are offered.
// It is immutable and safe for concurrent use.
type template struct {
	tools     []llm.ToolSpec
	targets   []*agent.Node // the targets of transfers that the model is offered
	form      transfer.Form
	transfer  string   // the instruction about transfers; "" without targets
	global    string   // the global instructions of the agent and of the agents above it
	prompt    string   // the instructions given to New
	system    string   // global, prompt and transfer, joined by empty lines
	shortened []string // the tools whose descriptions were shortened, each with the original length

	// Only for agents that share their requests:
	owners   []string // the first agent that has each tool
	maxTools int      // the number of tools that the endpoint accepts

	// Only for a full template:
	knownNames []llm.ToolSpec // the names of the agents and tools of the tree
	sets       []tools.Set    // the sets of all agents of the tree
	group      []*agent.Node  // the agents that share their requests; nil if the agent shares them with no other
	shared     atomic.Pointer[template]
	variants   sync.Map // templateKey → *template

	viewKey any // the key of the agent's view of the user's conversation
	newView func() any
}

// template returns the full template of the agent at n.
func (k *kit) template(n *agent.Node) *template {
	if o, ok := k.templates.Load(n); ok {
		return o.(*template)
	}
	o := k.newTemplate(n, n.Targets(), "")
	o.group = sharingGroup(n)
	o.viewKey, o.newView = viewKey{n.Agent.Name(), ""}, func() any { return k.agent.newView(n, "") }
	if len(n.Tree().Root().Children()) > 0 { // without children no transfer is possible
		known := o.form.KnownNames(n.Tree())
		for other := range n.Tree().Walk() {
			if with, ok := agent.As[toolOwner](other.Agent); ok {
				for _, t := range with.Tools() {
					known.Aliases = append(known.Aliases, t.Info().Name)
				}
				o.sets = append(o.sets, with.Toolsets()...)
			}
		}
		o.knownNames = []llm.ToolSpec{known}
	}
	stored, _ := k.templates.LoadOrStore(n, o)
	return stored.(*template)
}

// viewKey is the key under which the session keeps an agent's view of a scope. In a graph the agent's name is that of
// its node.
type viewKey struct{ agent, scope string }

// newView returns an empty view of a scope.
func (a *Agent) newView(n *agent.Node, scope string) *view.View {
	v := view.New(n, a.history, scope)
	if a.split {
		v.Read(requestMessages)
	}
	if a.compaction != nil {
		v.Count(a.compaction.Count)
	}
	if group := sharingGroup(n); group != nil {
		v.Share(nodeNames(group))
	}
	return v
}

// toolOwner is an agent with tools.
type toolOwner interface {
	Tools() []tools.Tool
	Toolsets() []tools.Set
}

// knownTools returns the tools and agents whose names mark a call that a model has written as text, whether the
// request offers them or not: every agent of the tree and its tools. Tools of a set are included if the set has listed
// them.
func (o *template) knownTools() []llm.ToolSpec {
	known := slices.Clip(o.knownNames)
	for _, s := range o.sets {
		if s, ok := s.(interface{ Listed() *tools.Registry }); ok {
			known = append(known, llm.ToolSpec{Aliases: s.Listed().Names()})
		}
	}
	return known
}

// templateKey is the state of a run on which its template depends.
type templateKey struct {
	targets string // the names of the offered targets; "" if all is true
	from    string // the agent that transferred to this one
	all     bool   // all targets are offered
}

// templateFor returns the template for this state of a run. The request is built from it, and the calls of the answer
// are checked against it.
func (k *kit) templateFor(n *agent.Node, run view.Run) *template {
	o := k.template(n)
	left := transfer.Offered(n, k.agent.properties.Policy, run)
	if len(left) == len(o.targets) && run.From == "" {
		return o
	}
	key := templateKey{from: run.From, all: len(left) == len(o.targets)}
	if !key.all {
		for _, t := range left {
			key.targets += t.Agent.Name() + " "
		}
	}
	if other, ok := o.variants.Load(key); ok {
		return other.(*template)
	}
	stored, _ := o.variants.LoadOrStore(key, k.newTemplate(n, left, run.From))
	return stored.(*template)
}

func (k *kit) newTemplate(n *agent.Node, targets []*agent.Node, from string) *template {
	o := &template{tools: make([]llm.ToolSpec, 0, len(k.tools)+1), targets: targets, form: k.formFor(n), prompt: k.agent.prompt}
	for _, t := range k.tools {
		o.add(t.Info().ToolSpec)
	}
	if len(n.Tree().Root().Children()) > 0 || len(targets) > 0 { // an agent alone needs no description of itself
		var specs []llm.ToolSpec
		specs, o.transfer = o.form.Offer(n, targets, from)
		for _, s := range specs {
			o.add(s)
		}
	}
	for up := n; up != nil; up = up.Parent {
		o.global = paragraphs(up.Properties.GlobalInstruction, o.global)
	}
	o.system = paragraphs(paragraphs(o.global, o.prompt), o.transfer)
	return o
}

// maxDescription is the maximal length of a tool's description in characters. OpenAI refuses a longer one.
const maxDescription = 1024

// add adds a tool in the form that the strictest endpoints accept. Its calls are checked against the tool's own
// schema.
func (o *template) add(t llm.ToolSpec) {
	t.Parameters = schema.Plain(t.Parameters)
	if n := utf8.RuneCountInString(t.Description); n > maxDescription {
		t.Description = visible.Cut(t.Description, maxDescription)
		o.shortened = append(o.shortened, fmt.Sprintf("%s (%d)", t.Name, n))
	}
	o.tools = append(o.tools, t)
}

// has reports whether the tool choice is the name of a tool of the template.
func (o *template) has(choice llm.ToolChoice) bool {
	return slices.ContainsFunc(o.tools, func(t llm.ToolSpec) bool { return t.Name == string(choice) })
}

// transferTo reports whether a tool's name means a transfer. target is "" if the arguments name the target.
func (k *kit) transferTo(n *agent.Node, name string) (target string, ok bool) {
	if k.has(name) || !toolName(name) {
		return "", false
	}
	return k.template(n).form.TargetOf(n, name)
}

// transferCall implements [agent.Properties.TransferCall].
func (k *kit) transferCall(n *agent.Node, input json.RawMessage) (name string, arguments json.RawMessage) {
	if name, arguments = k.template(n).form.ToolCall(input); k.has(name) {
		return agent.TransferTool, input
	}
	return name, arguments
}

// transferOptions are the options that change the form of transfers.
type transferOptions struct {
	tools             transfer.Tools
	name, description string  // "": the defaults of the form
	instruction       *string // nil: the default of the form
	oneTool           bool    // one tool for all targets, even with small models
}

// configure returns the form of transfers, and the errors of the options. chosen reports that the agent's settings choose
// the transfer tool.
func (w *transferOptions) configure(chosen bool) (form transfer.Form, problems []error) {
	switch t := w.tools; {
	case t == transfer.ToolPerTarget && chosen:
		problems = append(problems, fmt.Errorf("no tool is named %s, the tool choice, because each target has its own tool: choose one of these, or %s", agent.TransferTool, llm.ToolChoiceRequired))
	case t != 0 && t != transfer.OneTool && t != transfer.ToolPerTarget:
		problems = append(problems, fmt.Errorf("the option for transfer tools is %d, but must be transfer.OneTool or transfer.ToolPerTarget", t))
	}
	w.oneTool = chosen || w.name != "" || w.tools == transfer.OneTool
	form = w.form(cmp.Or(w.tools, transfer.OneTool))
	if err := tools.CheckName(form.Name); err != nil {
		problems = append(problems, fmt.Errorf("the transfer tool: %w", err))
	}
	return form, problems
}

func (w transferOptions) form(t transfer.Tools) transfer.Form {
	f := transfer.DefaultForm(t)
	f.Name, f.Description = cmp.Or(w.name, f.Name), cmp.Or(w.description, f.Description)
	if w.instruction != nil {
		f.Begun = transfer.Instructions{Targets: *w.instruction}
		f.Arrived = f.Begun
	}
	return f
}

// formFor returns the form of transfers of the agent at n.
func (k *kit) formFor(n *agent.Node) transfer.Form {
	a := k.agent
	if sharingGroup(n) != nil {
		return a.transferOptions.form(transfer.Shared)
	}
	if len(k.tools)+len(n.Targets()) > a.maxTools {
		one := a.form
		if one.Tools == transfer.ToolPerTarget {
			one = a.transferOptions.form(transfer.OneTool)
			one.Name = agent.TransferTool // the form's own name is a prefix
		}
		return one
	}
	if n.SmallModels() && !a.transferOptions.oneTool {
		if each := a.transferOptions.form(transfer.ToolPerTarget); len(each.Check(targetNames(n), k.has)) == 0 {
			return each
		}
	}
	return a.form
}

// tooMany returns an error with the counts if the agent at n would send more tools than its endpoint accepts. own is
// the number of its tools without transfer tools.
func (k *kit) tooMany(n *agent.Node, own int) error {
	transfers := len(k.formFor(n).Names(targetNames(n)))
	if most := k.agent.maxTools; own+transfers > most {
		transfers = min(transfers, 1) // at least one tool for all targets
		if own+transfers > most {
			return fmt.Errorf("agent %s has %d tools and %d for transfers, and its endpoint accepts %d: remove some, or set max_tools if the endpoint accepts more", k.agent.name, own, transfers, most)
		}
	}
	return nil
}

func targetNames(n *agent.Node) []string { return nodeNames(n.Targets()) }

func nodeNames(nodes []*agent.Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Agent.Name()
	}
	return names
}
