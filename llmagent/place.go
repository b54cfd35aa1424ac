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
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// offer is what a request has in addition to the messages: everything that the agent is offered in its place in a
// tree, or the part of it that is left in a state of the run.
type offer struct {
	tools    []llm.ToolSpec
	targets  []*agent.Node // of transfers
	form     transfer.Form
	transfer string   // the instruction about transfers, with the targets; "" without any
	global   string   // the global instructions of the agent and of those above it
	prompt   string   // the agent's fixed instructions
	system   string   // global, prompt and transfer, joined
	cut      []string // the tools whose descriptions were shortened, with the lengths

	// Of what several agents share:
	owners []string // of the tools, the first that has each
	most   int      // how many tools the endpoint takes

	// Of a place:
	known  []llm.ToolSpec // the agents and the tools of the tree
	sets   []tools.Set    // of all agents of the tree
	group  []*agent.Node  // that share their requests with the agent; nil without any
	common atomic.Pointer[offer]
	others sync.Map // state → *offer

	viewKey any // of the view of the user's conversation
	newView func() any
}

// place returns all that the agent is offered in its place.
func (k *kit) place(n *agent.Node) *offer {
	if o, ok := k.places.Load(n); ok {
		return o.(*offer)
	}
	o := k.newOffer(n, n.Targets(), "")
	o.group = sharing(n)
	o.viewKey, o.newView = viewKey{n.Agent.Name(), ""}, func() any { return k.agent.newView(n, "") }
	if len(n.Tree().Root().Children()) > 0 { // else no transfer is possible
		known := o.form.Known(n.Tree())
		for other := range n.Tree().Walk() {
			if with, ok := agent.As[toolOwner](other.Agent); ok {
				for _, t := range with.Tools() {
					known.Aliases = append(known.Aliases, t.Info().Name)
				}
				o.sets = append(o.sets, with.Toolsets()...)
			}
		}
		o.known = []llm.ToolSpec{known}
	}
	stored, _ := k.places.LoadOrStore(n, o)
	return stored.(*offer)
}

// viewKey is the key under which the session keeps an agent's view of a scope. In a graph the agent has the name of its
// node.
type viewKey struct{ agent, scope string }

// newView returns an empty view of a scope.
func (a *Agent) newView(n *agent.Node, scope string) *view.View {
	v := view.New(n, a.history, scope)
	if a.split {
		v.Read(readMessages)
	}
	if a.compaction != nil {
		v.Count(a.compaction.Count)
	}
	if group := sharing(n); group != nil {
		v.Share(nodeNames(group))
	}
	return v
}

// toolOwner is an agent with tools.
type toolOwner interface {
	Tools() []tools.Tool
	Toolsets() []tools.Set
}

// named returns the tools and agents whose names mark a call that a model has written as text, offered or not: every
// agent of the tree, and every tool of an agent of it, those of sets as far as the sets have listed them.
func (o *offer) named() []llm.ToolSpec {
	known := slices.Clip(o.known)
	for _, s := range o.sets {
		if s, ok := s.(interface{ Listed() *tools.Registry }); ok {
			known = append(known, llm.ToolSpec{Aliases: s.Listed().Names()})
		}
	}
	return known
}

// state is what decides what a place offers in a run. Targets are the names of those that are left, if
// some are left out.
type state struct {
	targets, from string
	all           bool
}

// offered returns what the agent's model is offered in this state of its run. The request is built from it, and the
// calls of the answer are checked against it.
func (k *kit) offered(n *agent.Node, run view.Run) *offer {
	o := k.place(n)
	left := transfer.Offered(n, k.agent.properties.Policy, run)
	if len(left) == len(o.targets) && run.From == "" {
		return o
	}
	key := state{from: run.From, all: len(left) == len(o.targets)}
	if !key.all {
		for _, t := range left {
			key.targets += t.Agent.Name() + " "
		}
	}
	if other, ok := o.others.Load(key); ok {
		return other.(*offer)
	}
	stored, _ := o.others.LoadOrStore(key, k.newOffer(n, left, run.From))
	return stored.(*offer)
}

func (k *kit) newOffer(n *agent.Node, targets []*agent.Node, from string) *offer {
	o := &offer{tools: make([]llm.ToolSpec, 0, len(k.tools)+1), targets: targets, form: k.formAt(n), prompt: k.agent.prompt}
	for _, t := range k.tools {
		o.add(t.Info().ToolSpec)
	}
	if len(n.Tree().Root().Children()) > 0 || len(targets) > 0 { // else the agent is alone and needs no description of itself
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

// maxDescription limits the description of a tool, in characters. OpenAI refuses a longer one.
const maxDescription = 1024

// add offers a tool in the form that the strictest endpoints accept. Its calls are checked against the tool's own
// schema.
func (o *offer) add(t llm.ToolSpec) {
	t.Parameters = schema.Plain(t.Parameters)
	if n := utf8.RuneCountInString(t.Description); n > maxDescription {
		t.Description = string([]rune(t.Description)[:maxDescription-1]) + "…"
		o.cut = append(o.cut, fmt.Sprintf("%s (%d)", t.Name, n))
	}
	o.tools = append(o.tools, t)
}

// has reports whether the choice names a tool that is offered.
func (o *offer) has(choice llm.ToolChoice) bool {
	return slices.ContainsFunc(o.tools, func(t llm.ToolSpec) bool { return t.Name == string(choice) })
}

// transferTo reports whether a call of a tool is a transfer, and to which agent; the target is "" if the arguments
// name it.
func (k *kit) transferTo(n *agent.Node, name string) (target string, ok bool) {
	if k.has(name) || !toolName(name) {
		return "", false
	}
	return k.place(n).form.Called(n, name)
}

// transferCall is agent.Properties.TransferCall.
func (k *kit) transferCall(n *agent.Node, input json.RawMessage) (name string, arguments json.RawMessage) {
	if name, arguments = k.place(n).form.Call(input); k.has(name) {
		return agent.TransferTool, input
	}
	return name, arguments
}

// wording is how options change the form of transfers.
type wording struct {
	tools             transfer.Tools
	name, description string  // "": those of the form
	instruction       *string // nil: that of the form
	one               bool    // one tool for all targets, also with small models
}

// shapeTransfers sets the form of transfers by the options, and returns what is wrong with these.
func (a *Agent) shapeTransfers() (problems []error) {
	chosen := a.settings.ToolChoice == agent.TransferTool
	switch t := a.wording.tools; {
	case t == transfer.ToolPerTarget && chosen:
		problems = append(problems, fmt.Errorf("the tool choice %s names no tool where each target has its own: choose one of these, or %s", agent.TransferTool, llm.ToolChoiceRequired))
	case t != 0 && t != transfer.OneTool && t != transfer.ToolPerTarget:
		problems = append(problems, fmt.Errorf("the transfer tools %d are neither transfer.OneTool nor transfer.ToolPerTarget", t))
	}
	a.wording.one = chosen || a.wording.name != "" || a.wording.tools == transfer.OneTool
	a.form = a.wording.form(cmp.Or(a.wording.tools, transfer.OneTool))
	if err := tools.CheckName(a.form.Name); err != nil {
		problems = append(problems, fmt.Errorf("the transfer tool: %w", err))
	}
	return problems
}

func (w wording) form(t transfer.Tools) transfer.Form {
	f := transfer.DefaultForm(t)
	f.Name, f.Description = cmp.Or(w.name, f.Name), cmp.Or(w.description, f.Description)
	if w.instruction != nil {
		f.Begun = transfer.Instructions{Targets: *w.instruction}
		f.Arrived = f.Begun
	}
	return f
}

// formAt returns the form of transfers in a place of the agent.
func (k *kit) formAt(n *agent.Node) transfer.Form {
	a := k.agent
	if sharing(n) != nil {
		return a.wording.form(transfer.Shared)
	}
	if len(k.tools)+len(n.Targets()) > a.maxTools {
		one := a.form
		if one.Tools == transfer.ToolPerTarget {
			one = a.wording.form(transfer.OneTool)
			one.Name = agent.TransferTool // the name of the form is a prefix
		}
		return one
	}
	if n.SmallModels() && !a.wording.one {
		if each := a.wording.form(transfer.ToolPerTarget); len(each.Check(targetNames(n), k.has)) == 0 {
			return each
		}
	}
	return a.form
}

// tooMany returns an error with the counts if the agent, in its place, would offer more tools than its endpoint
// accepts. own is the number of its tools without those for transfers.
func (k *kit) tooMany(n *agent.Node, own int) error {
	transfers := len(k.formAt(n).Names(targetNames(n)))
	if most := k.agent.maxTools; own+transfers > most {
		transfers = min(transfers, 1) // at least one tool for all targets
		if own+transfers > most {
			return fmt.Errorf("agent %s has %d tools, and %d for transfers, and its endpoint takes %d: leave some out, or set max_tools if it takes more", k.agent.name, own, transfers, most)
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
