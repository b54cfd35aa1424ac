package transfer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	schemas "github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// Tools is the way in which a model is offered its targets. The zero value is [OneTool] in [DefaultForm].
type Tools int

const (
	// OneTool offers one tool for all targets, whose argument agent_name says which.
	OneTool Tools = iota + 1
	// ToolPerTarget offers a tool for each target, which is named after it.
	ToolPerTarget
	// Shared offers the agents that share their requests one tool for all agents of the tree; the instruction lists those to
	// which the agent may transfer.
	Shared
)

// prefix is what the names of tools begin with that are for one target each.
const prefix = "transfer_to_"

// What an instruction about transfers can hold, for what a request offers.
const (
	// ToolHere is replaced by the name of the tool, or with [ToolPerTarget] by the names of
	// all of them.
	ToolHere = "{tool}"
	// TargetsHere is replaced by the targets, each in a line "- NAME: DESCRIPTION", or with
	// [ToolPerTarget] "- NAME (TOOL): DESCRIPTION".
	TargetsHere = "{targets}"
	// FromHere is replaced by the name of the agent that transferred the conversation to this one.
	FromHere = "{from}"
	// ReasonHere stays in what [Form.Offer] returns, for [WithReason].
	ReasonHere = "{reason}"
	// SelfHere is replaced by the agent's own name and description, "NAME: DESCRIPTION".
	SelfHere = "{self}"
)

// The instructions tell a model about its agent and about transfers, unless the agent brings text of its
// own. Of those that were measured with small models (docs/routing.md) these route best.
const (
	// instruction is that of a run that began with the user's message, for [OneTool].
	instruction = others + "\nIf the user's message is the work of another agent, call " + ToolHere + " for that agent at once" + rule
	// arrived is that of an agent that has the conversation by a transfer, from this turn or an earlier one, for [OneTool].
	arrived = others + "\n" + given + " Call " + ToolHere + " only if the user's message is clearly the work of another agent."
	// instructionPerTarget and arrivedPerTarget are the same for [ToolPerTarget].
	instructionPerTarget = othersPerTarget + "\nIf the user's message is the work of another agent, call that agent's tool at once" + rule
	arrivedPerTarget     = othersPerTarget + "\n" + given + " Call another agent's tool only if the user's message is clearly the work of that agent."
	// alone and aloneArrived are those of requests that offer no transfer, in a tree with other agents.
	alone        = "You are " + SelfHere
	aloneArrived = alone + "\n" + given

	others          = alone + "\nOther agents, for other work only:\n" + TargetsHere
	othersPerTarget = alone + "\nOther agents, for other work only, each with its tool:\n" + TargetsHere
	given           = FromHere + " gave you the conversation because it is your work" + ReasonHere + ". Answer the user now."
	rule            = ": do not answer, ask or announce anything first. That agent reads the whole conversation and answers." +
		" If it is your work, or no other agent's, answer it yourself."
)

// The descriptions of the tools, unless an agent brings text of its own. The
// tool's targets follow, as in the instruction.
const (
	description          = "Transfers the conversation to another agent, which reads all of it and answers in your place. The agents:" // of [OneTool]
	descriptionPerTarget = "Transfers the conversation to this agent, which reads all of it and answers in your place:"
	descriptionShared    = "Transfers the conversation to another agent, to which you may transfer now. It reads all of the conversation and answers in your place. The agents:" // of [Shared]
)

// Form is how a model reads the targets of its agent, and how it calls for a transfer to one.
type Form struct {
	Tools Tools
	// Name is that of the one tool, or what the names of all begin with.
	Name        string
	Description string
	Begun       Instructions // of a run that began with the user's message
	Arrived     Instructions // of an agent that has the conversation by a transfer
}

// Instructions are texts at the end of the system text. "" adds nothing.
type Instructions struct {
	Targets string // where the request offers targets
	Alone   string // where it offers none
}

// DefaultForm returns the form with the package's own texts. Every other value of t is [OneTool].
func DefaultForm(t Tools) Form {
	switch t {
	case Shared:
		return Form{t, agent.TransferTool, descriptionShared, Instructions{instruction, alone}, Instructions{arrived, aloneArrived}}
	case ToolPerTarget:
		return Form{t, prefix, descriptionPerTarget, Instructions{instructionPerTarget, alone}, Instructions{arrivedPerTarget, aloneArrived}}
	}
	return Form{t, agent.TransferTool, description, Instructions{instruction, alone}, Instructions{arrived, aloneArrived}}
}

// Offer returns what a model is offered for transfers from the agent's place to these of its targets: the tools, none
// without targets, and the instruction for the system text, of an agent that has the conversation by a transfer from
// another one, or if from is "" by the user's message. Targets are in the order given, names and descriptions byte for
// byte as they are. The inputs that targets need are the property "input".
func (f Form) Offer(n *agent.Node, targets []*agent.Node, from string) (specs []llm.ToolSpec, instruction string) {
	text := f.Begun
	if from != "" {
		text = f.Arrived
	}
	switch {
	case len(targets) == 0:
		return nil, strings.NewReplacer(SelfHere, line(n, ""), FromHere, from).Replace(text.Alone)
	case f.Tools == ToolPerTarget:
		for i, t := range targets {
			specs = append(specs, f.tool(n, f.Name+t.Agent.Name(), targets[i:i+1]))
		}
	default:
		specs = []llm.ToolSpec{f.tool(n, f.Name, targets)}
	}
	names, lines := make([]string, len(specs)), Lines(targets)
	for i, spec := range specs {
		names[i] = spec.Name
	}
	switch {
	case f.Tools == ToolPerTarget:
		lines = linesOf(targets, func(i int) string { return " (" + names[i] + ")" })
	case f.Tools == Shared && from != "": // the shared tool describes them
		lines = "- " + strings.Join(targetNames(targets), "\n- ")
	}
	return specs, strings.NewReplacer(ToolHere, strings.Join(names, ", "), TargetsHere, lines, SelfHere, line(n, ""), FromHere, from).Replace(text.Targets)
}

// WithReason puts the reason of the transfer that began a run into its instruction, as a JSON string after
// a colon; "" leaves it out.
func WithReason(instruction, reason string) string {
	if reason != "" {
		reason = ": " + string(event.EncodeJSON(reason))
	}
	return strings.ReplaceAll(instruction, ReasonHere, reason)
}

// Lines returns one line "- NAME: DESCRIPTION" for each agent, for models. Names and descriptions are unchanged.
func Lines(agents []*agent.Node) string { return linesOf(agents, func(int) string { return "" }) }

func linesOf(agents []*agent.Node, after func(i int) string) string {
	shown := make([]string, len(agents))
	for i, n := range agents {
		shown[i] = "- " + line(n, after(i))
	}
	return strings.Join(shown, "\n")
}

// line shows an agent, with something after its name.
func line(n *agent.Node, after string) string {
	if d := n.Agent.Description(); d != "" {
		return n.Agent.Name() + after + ": " + d
	}
	return n.Agent.Name() + after
}

func (f Form) tool(n *agent.Node, name string, targets []*agent.Node) llm.ToolSpec {
	type property struct {
		Type        string   `json:"type"`
		Enum        []string `json:"enum,omitempty"`
		Description string   `json:"description"`
	}
	var schema struct {
		Type       string `json:"type"`
		Properties struct {
			AgentName *property `json:"agent_name,omitempty"`
			Reason    property  `json:"reason"`
			Input     any       `json:"input,omitempty"`
		} `json:"properties"`
		Required             []string `json:"required,omitempty"`
		AdditionalProperties bool     `json:"additionalProperties"`
	}
	schema.Type = "object"
	schema.Properties.Reason = property{"string", nil, "Why, in a few words"}
	if f.Tools != ToolPerTarget {
		schema.Properties.AgentName = &property{"string", targetNames(targets), "The agent that takes over"}
		schema.Required = []string{"agent_name"}
	}
	var all bool
	if schema.Properties.Input, all = inputs(n, targets); all {
		schema.Required = append(schema.Required, "input")
	}
	return llm.ToolSpec{Name: name, Description: f.Description + "\n" + Lines(targets), Parameters: event.EncodeJSON(schema),
		Aliases: aliases(name, targets), Bare: bare(name, targets)}
}

func targetNames(targets []*agent.Node) []string {
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.Agent.Name()
	}
	return names
}

// All returns the tool of [Shared] for all agents of a tree, in its order, and a person.
func (f Form) All(tree *agent.Tree) llm.ToolSpec {
	all := slices.Collect(tree.Walk())
	if person := tree.Root().Human(); person != nil {
		all = append(all, person)
	}
	return f.tool(nil, f.Name, all)
}

// Known returns the names by which a model may call for a transfer to any agent of the tree, legal or
// not, for [llm.Request.Known].
func (f Form) Known(tree *agent.Tree) (known llm.ToolSpec) {
	var all []*agent.Node
	for n := range tree.Walk() {
		all = append(all, n)
		known.Aliases = append(known.Aliases, f.Name+n.Agent.Name())
	}
	known.Aliases, known.Bare = append(known.Aliases, append(aliases("", all), f.Name)...), bare(f.Name, all)
	return known
}

// bare returns the names that are a call of the tool by themselves.
func bare(name string, targets []*agent.Node) (names []string) {
	for _, t := range targets {
		names = append(names, prefix+t.Agent.Name())
	}
	if !slices.Contains(names, name) {
		names = append(names, name)
	}
	return names
}

// aliases returns the other names by which [Form.Called] knows the tool.
func aliases(name string, targets []*agent.Node) (names []string) {
	for _, t := range targets {
		names = append(names, t.Agent.Name(), prefix+t.Agent.Name())
	}
	return slices.DeleteFunc(append(names, agent.TransferTool), func(other string) bool { return other == name })
}

// inputs returns the schema of what transfers to the targets carry, nil if they
// carry nothing, and whether every one of them must carry something.
func inputs(n *agent.Node, targets []*agent.Node) (schema any, all bool) {
	type titled struct {
		Description string            `json:"description"`
		AllOf       []json.RawMessage `json:"allOf"`
	}
	var wanted []titled
	for _, t := range targets {
		from := n
		if from == nil { // for transfers from any agent
			from = t.Parent
		}
		if from == nil {
			continue
		}
		if in := from.InputFor(t); in != nil {
			wanted = append(wanted, titled{"For " + t.Agent.Name(), []json.RawMessage{schemas.Plain(in.Schema)}})
		}
	}
	switch {
	case len(wanted) == 0:
		return nil, false
	case len(wanted) == 1:
		return wanted[0].AllOf[0], len(targets) == 1
	}
	return struct {
		AnyOf []titled `json:"anyOf"`
	}{wanted}, len(wanted) == len(targets)
}

// Called reads the name by which the agent's model has called a tool, none of the
// agent's own. It reports whether that is a call for a transfer, and the name of the
// target if the tool's name says it; else the arguments do. Models know the names of all
// forms, so that each is understood in each: transfer_to_agent, transfer_to_NAME, and the
// bare name of a target. Whether it is legal is for [Resolve] to say.
func (f Form) Called(n *agent.Node, name string) (target string, ok bool) {
	if name == agent.TransferTool || f.Tools != ToolPerTarget && name == f.Name {
		return "", true
	}
	if slices.ContainsFunc(n.Targets(), func(t *agent.Node) bool { return t.Agent.Name() == name }) {
		return name, true
	}
	if target, ok = strings.CutPrefix(name, f.Name); !ok || f.Tools != ToolPerTarget {
		target, ok = strings.CutPrefix(name, prefix)
	}
	return target, ok && target != ""
}

// Call returns a transfer as a model would call it, from the arguments in the log: the
// tool's name, and its arguments. It undoes what [Input] does, whether the target is
// legal or not.
func (f Form) Call(input json.RawMessage) (name string, arguments json.RawMessage) {
	if f.Tools != ToolPerTarget {
		return f.Name, input
	}
	var members map[string]json.RawMessage
	var target string
	if json.Unmarshal(input, &members) != nil || json.Unmarshal(members[targetKey], &target) != nil || target == "" {
		return agent.TransferTool, input
	}
	if name = f.Name + target; name == agent.TransferTool || tools.CheckName(name) != nil {
		return agent.TransferTool, input
	}
	maps.DeleteFunc(members, isTargetKey)
	return name, event.EncodeJSON(members)
}

// Names returns the names of the tools that a model is offered for these targets.
func (f Form) Names(targets []string) (names []string) {
	if f.Tools != ToolPerTarget {
		return []string{f.Name}[:min(1, len(targets))]
	}
	for _, target := range targets {
		names = append(names, f.Name+target)
	}
	return names
}

// Check returns what is wrong with the names of the tools that an agent is offered for
// these targets, where each has one. Own reports whether a name is that of a tool of the
// agent's own.
func (f Form) Check(targets []string, own func(name string) bool) (problems []string) {
	if f.Tools != ToolPerTarget {
		return nil
	}
	for _, target := range targets {
		name, wrong := f.Name+target, ""
		switch {
		case len(name) > 64:
			wrong = fmt.Sprintf("has %d characters, and at most 64 are allowed", len(name))
		case name == agent.TransferTool:
			wrong = "is reserved"
		case own(name):
			wrong = "is that of another of its tools"
		case slices.Contains(targets, name):
			wrong = "is that of another agent to transfer to"
		default:
			continue
		}
		problems = append(problems, fmt.Sprintf("there can be no tool for transfers to %q alone: its name %s %s; rename one of them, or offer one tool for all targets", target, name, wrong))
	}
	return problems
}
