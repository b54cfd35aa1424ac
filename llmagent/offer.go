package llmagent

import (
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// offer is what the agent's model is offered beside the messages: all that its place
// in a tree has, or what is left of that at a moment.
type offer struct {
	tools    []llm.ToolSpec
	targets  []*agent.Node // of transfers
	form     transfer.Form
	transfer string         // the instruction about transfers, with the targets; "" without any
	global   string         // the instructions of all agents under this one's ancestors, and of it
	prompt   string         // the agent's fixed instructions
	system   string         // global, prompt and transfer, joined
	cut      []string       // the tools whose descriptions were shortened, with the lengths
	known    []llm.ToolSpec // of its place: the agents and the tools of the tree
	sets     []tools.Set    // of its place: those of all agents of the tree

	view   func() any // makes the view of the user's conversation
	others sync.Map   // moment → *offer
}

// place returns all that the agent has in its place, made once.
func (a *Agent) place(n *agent.Node) *offer {
	if o, ok := a.offers.Load(n); ok {
		return o.(*offer)
	}
	o := a.newOffer(n, n.Targets(), "")
	o.view = func() any { return a.newView(n, "") }
	if len(n.Tree().Root().Children()) > 0 { // else there is nobody to transfer to
		known := o.form.Known(n.Tree())
		for other := range n.Tree().Walk() {
			if with, ok := agent.As[equipped](other.Agent); ok {
				for _, t := range with.Tools() {
					known.Aliases = append(known.Aliases, t.Info().Name)
				}
				o.sets = append(o.sets, with.Toolsets()...)
			}
		}
		o.known = []llm.ToolSpec{known}
	}
	stored, _ := a.offers.LoadOrStore(n, o)
	return stored.(*offer)
}

// equipped is an agent with tools.
type equipped interface {
	Tools() []tools.Tool
	Toolsets() []tools.Set
}

// named returns what a call of may be written as words, on offer or not: every agent of the tree, and every tool
// that an agent of it has, as far as sets have listed theirs.
func (o *offer) named() []llm.ToolSpec {
	known := slices.Clip(o.known)
	for _, s := range o.sets {
		if s, ok := s.(interface{ Listed() *tools.Registry }); ok {
			known = append(known, llm.ToolSpec{Aliases: s.Listed().Names()})
		}
	}
	return known
}

// offered returns what the agent's model has at this moment of its run. It is asked for
// the request, and when a call of the answer to it is executed.
func (a *Agent) offered(n *agent.Node, run view.Run) *offer {
	o := a.place(n)
	left := transfer.Offered(n, a.properties.Policy, run)
	if len(left) == len(o.targets) && run.From == "" {
		return o
	}
	key := moment{from: run.From, all: len(left) == len(o.targets)}
	if !key.all {
		for _, t := range left {
			key.targets += t.Agent.Name() + " "
		}
	}
	if other, ok := o.others.Load(key); ok {
		return other.(*offer)
	}
	stored, _ := o.others.LoadOrStore(key, a.newOffer(n, left, run.From))
	return stored.(*offer)
}

// moment is what decides about an offer in a place. Targets are the names of those that are left, if
// some are left out.
type moment struct {
	targets, from string
	all           bool
}

func (a *Agent) newOffer(n *agent.Node, targets []*agent.Node, from string) *offer {
	o := &offer{tools: make([]llm.ToolSpec, 0, len(a.tools)+1), targets: targets, form: a.formAt(n), prompt: a.prompt}
	for _, t := range a.tools {
		o.add(t.Info().ToolSpec)
	}
	if len(n.Tree().Root().Children()) > 0 || len(targets) > 0 { // else there is nobody to tell it from
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

// maxDescription bounds, in characters, the description of a tool. OpenAI refuses a longer one.
const maxDescription = 1024

// add offers a tool in the form that the strictest endpoints accept. Its calls are checked against its own schema.
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

func paragraphs(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
