package llmagent

import (
	"cmp"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
)

// wording is how options change the form of transfers.
type wording struct {
	tools             transfer.Tools
	name, description string  // "": those of the form
	instruction       *string // nil: that of the form
	one               bool    // one tool for all targets, also with small models
}

// WithTransferTools sets whether the agent's model is offered its targets by one tool,
// transfer.OneTool, or by one tool for each, transfer.ToolPerTarget: transfer_to_NAME, with
// the description of the agent NAME. In the log a call of either is the same.
//
// Defaults to one tool, also if t is 0. With [WithSmallModels] it defaults to one for each if the names
// of these tools are legal, WithTransferTool sets no name and the tool choice is not transfer_to_agent.
// Names of targets may then have 52 characters, and must not make the name of another tool. If t is
// transfer.ToolPerTarget and a name is not legal, the tree cannot be built.
func WithTransferTools(t transfer.Tools) Option { return func(a *Agent) { a.wording.tools = t } }

// WithTransferInstruction replaces all that the system text says about transfers, which
// is transfer.Instruction; "" leaves it out. In the text, transfer.TargetsHere
// becomes the list of the targets that the request offers, transfer.ToolHere the
// name of the tool, and transfer.SelfHere the agent's name and description. A request
// that offers no transfer does not contain the text.
func WithTransferInstruction(text string) Option {
	return func(a *Agent) { a.wording.instruction = &text }
}

// WithTransferTool gives the transfer tool another name and description in requests; an
// empty one changes nothing. With transfer.ToolPerTarget the names of all the tools
// begin with the name, and each has the description. The targets follow the description.
// In the log the tool is always agent.TransferTool.
func WithTransferTool(name, description string) Option {
	return func(a *Agent) { a.wording.name, a.wording.description = name, description }
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

// tooMany returns an error with the counts if the agent, in its place, would offer more tools than its endpoint accepts.
// own is the number of its tools without those for transfers.
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

func targetNames(n *agent.Node) []string {
	names := make([]string, len(n.Targets()))
	for i, t := range n.Targets() {
		names[i] = t.Agent.Name()
	}
	return names
}
