package llmagent

import (
	"slices"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// offer is what the agent's model is offered beside the messages: all that its place
// in a tree has, or what is left of that at a moment.
type offer struct {
	tools    []llm.ToolSpec
	targets  []*agent.Node // of transfers
	form     transfer.Form
	transfer string // the instruction about transfers, with the targets; "" without any
	global   string // the instructions of all agents under this one's ancestors, and of it
	prompt   string // the agent's fixed instructions
	system   string // global, prompt and transfer, joined

	view func() any // makes the view of the user's conversation
	less sync.Map   // *agent.Node → *offer: without this target, and for nil without any
}

// place returns all that the agent has in its place, made once.
func (a *Agent) place(n *agent.Node) *offer {
	if o, ok := a.offers.Load(n); ok {
		return o.(*offer)
	}
	o := a.newOffer(n, n.Targets())
	o.view = func() any { return a.newView(n, "") }
	stored, _ := a.offers.LoadOrStore(n, o)
	return stored.(*offer)
}

// offered returns what the agent's model has at this moment of its run. It is asked for
// the request, and when a call of the answer to it is executed.
func (a *Agent) offered(n *agent.Node, run view.Run) *offer {
	o := a.place(n)
	if run.Limited || run.Decided {
		return a.without(n, o, nil)
	}
	if from := transfer.Withheld(n, a.properties.Policy, run.Handed); from != nil {
		return a.without(n, o, from)
	}
	return o
}

func (a *Agent) without(n *agent.Node, o *offer, target *agent.Node) *offer {
	if less, ok := o.less.Load(target); ok {
		return less.(*offer)
	}
	var left []*agent.Node
	if target != nil {
		left = slices.DeleteFunc(slices.Clone(o.targets), func(t *agent.Node) bool { return t == target })
	}
	stored, _ := o.less.LoadOrStore(target, a.newOffer(n, left))
	return stored.(*offer)
}

func (a *Agent) newOffer(n *agent.Node, targets []*agent.Node) *offer {
	o := &offer{tools: make([]llm.ToolSpec, 0, len(a.tools)+1), targets: targets, form: a.formAt(n), prompt: a.prompt}
	for _, t := range a.tools {
		o.tools = append(o.tools, t.Info().ToolSpec)
	}
	var hands []llm.ToolSpec
	hands, o.transfer = o.form.Offer(n, targets)
	o.tools = append(o.tools, hands...)
	for up := n; up != nil; up = up.Parent {
		o.global = paragraphs(up.Properties.GlobalInstruction, o.global)
	}
	o.system = paragraphs(paragraphs(o.global, o.prompt), o.transfer)
	return o
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
