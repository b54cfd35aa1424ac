package llmagent

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
)

// wording is what options say about the form of transfers.
type wording struct {
	tools             transfer.Tools
	name, description string  // "" for those of the form
	instruction       *string // nil for that of the form
}

// WithTransferTools says whether the agent's model is offered its targets by one tool,
// transfer.OneTool, or by one for each, transfer.ToolPerTarget: transfer_to_NAME, with
// the description of the agent NAME. In the log a call of either is the same. The
// default, also of 0, is transfer.DefaultTools. Where a tool for each has no legal name, the tree
// cannot be built: names of targets may have 52 characters then, and must not make that
// of another tool.
func WithTransferTools(t transfer.Tools) Option { return func(a *Agent) { a.wording.tools = t } }

// WithTransferInstruction replaces all that the system text says about transfers, which
// is transfer.Instruction, or transfer.InstructionPerTarget where each target has a
// tool; "" leaves it out. The text is shown as it is, but that transfer.TargetsHere in
// it becomes the list of the targets that the request offers, and transfer.ToolHere the
// name of the tool: a text without them has no list, and names what it likes. A request
// that offers no transfer has none of it.
func WithTransferInstruction(text string) Option {
	return func(a *Agent) { a.wording.instruction = &text }
}

// WithTransferTool gives the transfer tool another name and description on the
// wire; an empty one leaves what it is. With transfer.ToolPerTarget the name is what
// the names of all the tools begin with, and the description stands in each. The targets
// follow the description, and in the log the tool is always agent.TransferTool.
func WithTransferTool(name, description string) Option {
	return func(a *Agent) { a.wording.name, a.wording.description = name, description }
}

// shapeTransfers takes in what the options said about transfers.
func (a *Agent) shapeTransfers() (problems []error) {
	w := a.wording
	w.tools = cmp.Or(w.tools, transfer.DefaultTools)
	if w.tools != transfer.OneTool && w.tools != transfer.ToolPerTarget {
		problems = append(problems, fmt.Errorf("the transfer tools %d are neither transfer.OneTool nor transfer.ToolPerTarget", w.tools))
	}
	a.form = transfer.DefaultForm(w.tools)
	a.form.Name, a.form.Description = cmp.Or(w.name, a.form.Name), cmp.Or(w.description, a.form.Description)
	if w.instruction != nil {
		a.form.Instruction = *w.instruction
	}
	if err := tools.CheckName(a.form.Name); err != nil {
		problems = append(problems, fmt.Errorf("the transfer tool: %w", err))
	}
	if w.tools == transfer.ToolPerTarget && a.settings.ToolChoice == agent.TransferTool {
		problems = append(problems, fmt.Errorf("the tool choice %s names no tool where each target has its own: choose one of these, or %s", agent.TransferTool, llm.ToolChoiceRequired))
	}
	return problems
}

// transferTo reads the name of a tool that the agent's model has called: whether it
// asks for a transfer, and to which agent, "" if the arguments say it.
func (a *Agent) transferTo(n *agent.Node, name string) (target string, ok bool) {
	if a.byName[name] != nil || !toolName(name) {
		return "", false
	}
	return a.form.Called(n, name)
}

// TransferCall implements agent.TransferCaller.
func (a *Agent) TransferCall(input json.RawMessage) (name string, arguments json.RawMessage) {
	if name, arguments = a.form.Call(input); a.byName[name] != nil {
		return agent.TransferTool, input
	}
	return name, arguments
}

// CheckNode implements agent.Checker: a tool must not have the name of an agent that can
// be transferred to, and the tools for transfers need names of their own.
func (a *Agent) CheckNode(n *agent.Node) (problems []string) {
	var targets []string
	for _, t := range n.Targets() {
		name := t.Agent.Name()
		if targets = append(targets, name); a.byName[name] != nil || a.form.Name == name {
			problems = append(problems, fmt.Sprintf("the tool %q of agent %q is named like an agent it can transfer to", name, a.name))
		}
	}
	return append(problems, a.form.Check(targets, func(name string) bool { return a.byName[name] != nil })...)
}
