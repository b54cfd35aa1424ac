package llmagent

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
)

// wording is what options say about the form of transfers.
type wording struct {
	tools             transfer.Tools
	name, description string  // "" for those of the form
	instruction       *string // nil for that of the form
	one               bool    // tool for all targets, with small models too
}

// WithTransferTools says whether the agent's model is offered its targets by one tool,
// transfer.OneTool, or by one for each, transfer.ToolPerTarget: transfer_to_NAME, with
// the description of the agent NAME. In the log a call of either is the same.
//
// The default, also of 0, is one tool; where [WithSmallModels] holds it is one for each, if the names
// of these tools are legal, WithTransferTool sets no name and the tool choice is not transfer_to_agent.
// Names of targets may then have 52 characters, and must not make the name of another tool. If
// transfer.ToolPerTarget is asked for and a name is not legal, the tree cannot be built.
func WithTransferTools(t transfer.Tools) Option { return func(a *Agent) { a.wording.tools = t } }

// WithTransferInstruction replaces all that the system text says about transfers, which
// is transfer.Instruction; "" leaves it out. The text is shown as it is, but that transfer.TargetsHere in
// it becomes the list of the targets that the request offers, transfer.ToolHere the
// name of the tool, and transfer.SelfHere the agent's name and description. A request
// that offers no transfer has none of it.
func WithTransferInstruction(text string) Option {
	return func(a *Agent) { a.wording.instruction = &text }
}

// WithTransferTool gives the transfer tool another name and description on the wire; an
// empty one changes nothing. With transfer.ToolPerTarget the names of all the tools
// begin with the name, and each has the description. The targets follow the description,
// and in the log the tool is always agent.TransferTool.
func WithTransferTool(name, description string) Option {
	return func(a *Agent) { a.wording.name, a.wording.description = name, description }
}

// shapeTransfers takes in what the options said about transfers.
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

// formAt returns the form in a place of the agent.
func (a *Agent) formAt(n *agent.Node) transfer.Form {
	if len(a.tools)+len(n.Targets()) > a.mostTools() {
		one := a.form
		if one.Tools == transfer.ToolPerTarget {
			one = a.wording.form(transfer.OneTool)
			one.Name = agent.TransferTool // else it is what the names of all begin with
		}
		return one
	}
	if n.SmallModels() && !a.wording.one {
		if each := a.wording.form(transfer.ToolPerTarget); len(each.Check(targetNames(n), a.owns)) == 0 {
			return each
		}
	}
	return a.form
}

// DefaultMaxTools is the number of tools that OpenAI and most other endpoints accept in a request.
const DefaultMaxTools = 128

// WithMaxTools sets how many tools the agent's endpoint accepts in a request, those for transfers included. Above that
// number, one tool serves the transfers to all targets. If there are still too many, the tree cannot be built. If the
// tools of sets are too many, the turn ends with an error.
// Defaults to [DefaultMaxTools].
func WithMaxTools(n int) Option { return func(a *Agent) { a.maxTools = n } }

func (a *Agent) mostTools() int { return cmp.Or(a.maxTools, DefaultMaxTools) }

// TooManyTools returns an error with the counts if the agent, in its place, would offer more tools than its endpoint
// accepts. own is the number of its tools without those for transfers.
func (a *Agent) TooManyTools(n *agent.Node, own int) error {
	targets := targetNames(n)
	transfers := len(a.formAt(n).Names(targets))
	if most := a.mostTools(); own+transfers > most {
		transfers = min(transfers, 1) // at least one tool for all targets
		if own+transfers > most {
			return fmt.Errorf("agent %s has %d tools, and %d for transfers, and its endpoint takes %d: leave some out, or set max_tools if it takes more", a.name, own, transfers, most)
		}
	}
	return nil
}

func (a *Agent) owns(name string) bool { return a.byName[name] != nil }

func targetNames(n *agent.Node) []string {
	names := make([]string, len(n.Targets()))
	for i, t := range n.Targets() {
		names[i] = t.Agent.Name()
	}
	return names
}

// transferTo reads the name of a tool that the agent's model has called: whether it
// asks for a transfer, and to which agent, "" if the arguments say it.
func (a *Agent) transferTo(n *agent.Node, name string) (target string, ok bool) {
	if a.owns(name) || !toolName(name) {
		return "", false
	}
	return a.place(n).form.Called(n, name)
}

// transferCall is agent.Properties.TransferCall.
func (a *Agent) transferCall(n *agent.Node, input json.RawMessage) (name string, arguments json.RawMessage) {
	if name, arguments = a.place(n).form.Call(input); a.owns(name) {
		return agent.TransferTool, input
	}
	return name, arguments
}

// Transfer reads a call of the agent's model, at a place in a tree, as the hand-over that it asks
// for. It is false for a call of anything else, and for one that names nobody.
func (a *Agent) Transfer(n *agent.Node, c llm.ToolCall) (transfer.Call, bool) {
	target, ok := a.transferTo(n, c.Name)
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

// CheckNode implements agent.Checker: a tool must not have the name of an agent that can
// be transferred to, the tools for transfers need names of their own, and a rule about
// tools must be about one that there is.
func (a *Agent) CheckNode(n *agent.Node) (problems []string) {
	form, targets := a.formAt(n), targetNames(n)
	for _, name := range targets {
		if a.owns(name) || form.Name == name {
			problems = append(problems, fmt.Sprintf("the tool %q of agent %q is named like an agent it can transfer to", name, a.name))
		}
	}
	problems = append(problems, form.Check(targets, a.owns)...)
	if wrong := a.TooManyTools(n, len(a.tools)); wrong != nil {
		problems = append(problems, wrong.Error())
	}
	return append(problems, a.checkRules(n)...)
}
