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

// Tools is how requests offer an agent's targets to its model. The zero value is [OneTool] in [DefaultForm].
type Tools int

const (
	// OneTool offers one tool for all targets; the argument agent_name selects one.
	OneTool Tools = iota + 1
	// ToolPerTarget offers one tool per target, named after the target.
	ToolPerTarget
	// Shared offers one tool for all agents of the tree to the agents that share their requests. The instruction lists
	// the agents to which the current one may transfer.
	Shared
)

// prefix begins the names of the tools of [ToolPerTarget].
const prefix = "transfer_to_"

// Placeholders in an instruction about transfers.
const (
	// ToolPlaceholder is replaced by the name of the tool, or by all names with [ToolPerTarget].
	ToolPlaceholder = "{tool}"
	// TargetsPlaceholder is replaced by one line per target: "- NAME: DESCRIPTION", or "- NAME (TOOL): DESCRIPTION" with
	// [ToolPerTarget].
	TargetsPlaceholder = "{targets}"
	// FromPlaceholder is replaced by the name of the agent that transferred the conversation to this one.
	FromPlaceholder = "{from}"
	// ReasonPlaceholder is replaced by [WithReason]; [Form.Offer] leaves it unchanged.
	ReasonPlaceholder = "{reason}"
	// SelfPlaceholder is replaced by the agent's own name and description, "NAME: DESCRIPTION".
	SelfPlaceholder = "{self}"
)

// The default instructions describe a model's own agent and its transfers. Of those that were measured with small
// models (docs/routing.md), these route best.
const (
	// instruction is for a run that began with the user's message, with [OneTool].
	instruction = others + "\nIf the user's message is the work of another agent, call " + ToolPlaceholder + " for that agent at once" + rule
	// arrived is for an agent to which the conversation was transferred, in this turn or an earlier one, with [OneTool].
	arrived = others + "\n" + given + " Call " + ToolPlaceholder + " only if the user's message is clearly the work of another agent."
	// instructionPerTarget and arrivedPerTarget are the same texts with [ToolPerTarget].
	instructionPerTarget = othersPerTarget + "\nIf the user's message is the work of another agent, call that agent's tool at once" + rule
	arrivedPerTarget     = othersPerTarget + "\n" + given + " Call another agent's tool only if the user's message is clearly the work of that agent."
	// alone and aloneArrived are for requests without targets, in a tree with other agents.
	alone        = "You are " + SelfPlaceholder
	aloneArrived = alone + "\n" + given

	others          = alone + "\nOther agents, for other work only:\n" + TargetsPlaceholder
	othersPerTarget = alone + "\nOther agents, for other work only, each with its tool:\n" + TargetsPlaceholder
	given           = FromPlaceholder + " gave you the conversation because it is your work" + ReasonPlaceholder + ". Answer the user now."
	rule            = ": do not answer, ask or announce anything first. That agent reads the whole conversation and answers." +
		" If it is your work, or no other agent's, answer it yourself."
)

// The default descriptions of the tools. [Lines] of the tool's targets follow each.
const (
	description          = "Transfers the conversation to another agent, which reads all of it and answers in your place. The agents:" // of [OneTool]
	descriptionPerTarget = "Transfers the conversation to this agent, which reads all of it and answers in your place:"
	descriptionShared    = "Transfers the conversation to another agent, to which you may transfer now. It reads all of the conversation and answers in your place. The agents:" // of [Shared]
)

// Form describes how a request shows an agent's targets to its model, and how the model calls for a transfer.
type Form struct {
	Tools Tools
	// Name is the name of the only tool, or the prefix of all names with [ToolPerTarget].
	Name string
	// Description begins the description of each tool; the targets follow.
	Description string
	Begun       Instructions // for a run that began with the user's message
	Arrived     Instructions // for an agent to which the conversation was transferred
}

// Instructions are texts for the end of the system text. "" adds nothing.
type Instructions struct {
	Targets string // for requests with targets
	Alone   string // for requests without targets
}

// DefaultForm returns the form with the default texts. Values other than the constants of [Tools] mean [OneTool].
func DefaultForm(t Tools) Form {
	switch t {
	case Shared:
		return Form{t, agent.TransferTool, descriptionShared, Instructions{instruction, alone}, Instructions{arrived, aloneArrived}}
	case ToolPerTarget:
		return Form{t, prefix, descriptionPerTarget, Instructions{instructionPerTarget, alone}, Instructions{arrivedPerTarget, aloneArrived}}
	}
	return Form{t, agent.TransferTool, description, Instructions{instruction, alone}, Instructions{arrived, aloneArrived}}
}

// Offer returns the tools for transfers from an agent to some of its targets, and the instruction for the system text.
// Without targets there is no tool. from is the agent that transferred the conversation to this one, or "" if the run
// began with the user's message. Offer keeps the order of the targets, and their names and descriptions byte for byte.
// The property "input" has the inputs that targets need.
func (f Form) Offer(n *agent.Node, targets []*agent.Node, from string) (specs []llm.ToolSpec, instruction string) {
	text := f.Begun
	if from != "" {
		text = f.Arrived
	}
	switch {
	case len(targets) == 0:
		return nil, strings.NewReplacer(SelfPlaceholder, line(n, ""), FromPlaceholder, from).Replace(text.Alone)
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
	return specs, strings.NewReplacer(ToolPlaceholder, strings.Join(names, ", "), TargetsPlaceholder, lines, SelfPlaceholder, line(n, ""), FromPlaceholder, from).Replace(text.Targets)
}

// WithReason inserts the reason of the transfer that began a run into its instruction: a colon and a JSON string, or
// nothing if the reason is "".
func WithReason(instruction, reason string) string {
	if reason != "" {
		reason = ": " + string(event.EncodeJSON(reason))
	}
	return strings.ReplaceAll(instruction, ReasonPlaceholder, reason)
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

// line returns "NAME: DESCRIPTION" of an agent, with the text after directly after the name.
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
	if schema.Properties.Input, all = inputSchema(n, targets); all {
		schema.Required = append(schema.Required, "input")
	}
	return llm.ToolSpec{Name: name, Description: f.Description + "\n" + Lines(targets), Parameters: event.EncodeJSON(schema),
		Aliases: aliases(name, targets), Bare: bareNames(name, targets)}
}

func targetNames(targets []*agent.Node) []string {
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.Agent.Name()
	}
	return names
}

// SharedTool returns the tool of [Shared]: for all agents of a tree in its order, then for a person if the tree has
// one.
func (f Form) SharedTool(tree *agent.Tree) llm.ToolSpec {
	all := slices.Collect(tree.Walk())
	if person := tree.Root().Human(); person != nil {
		all = append(all, person)
	}
	return f.tool(nil, f.Name, all)
}

// KnownNames returns the names by which a model may call for a transfer to any agent of the tree, legal or not, for
// [llm.Request.Known].
func (f Form) KnownNames(tree *agent.Tree) (known llm.ToolSpec) {
	var all []*agent.Node
	for n := range tree.Walk() {
		all = append(all, n)
		known.Aliases = append(known.Aliases, f.Name+n.Agent.Name())
	}
	known.Aliases, known.Bare = append(known.Aliases, append(aliases("", all), f.Name)...), bareNames(f.Name, all)
	return known
}

// bareNames returns the names that are a call of the tool if one of them is the model's whole answer.
func bareNames(name string, targets []*agent.Node) (names []string) {
	for _, t := range targets {
		names = append(names, prefix+t.Agent.Name())
	}
	if !slices.Contains(names, name) {
		names = append(names, name)
	}
	return names
}

// aliases returns the other names that [Form.TargetOf] accepts for the tool.
func aliases(name string, targets []*agent.Node) (names []string) {
	for _, t := range targets {
		names = append(names, t.Agent.Name(), prefix+t.Agent.Name())
	}
	return slices.DeleteFunc(append(names, agent.TransferTool), func(other string) bool { return other == name })
}

// inputSchema returns the schema of the inputs of transfers to the targets, nil if no target needs one, and whether all
// targets need one.
func inputSchema(n *agent.Node, targets []*agent.Node) (schema any, all bool) {
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

// TargetOf reports whether a tool's name, which must not be that of one of the agent's own tools, means a transfer. The
// target is "" if only the arguments name it. TargetOf accepts the names of all forms, because models know them:
// transfer_to_agent, transfer_to_NAME, and the name of a target alone. [Resolve] checks whether the target is legal.
func (f Form) TargetOf(n *agent.Node, name string) (target string, ok bool) {
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

// ToolCall returns a transfer as a model would call it: the tool's name and its arguments, from the arguments in the
// log. It is the inverse of [Input], also for a target that is not legal.
func (f Form) ToolCall(input json.RawMessage) (name string, arguments json.RawMessage) {
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

// Names returns the names of the tools for these targets.
func (f Form) Names(targets []string) (names []string) {
	if f.Tools != ToolPerTarget {
		return []string{f.Name}[:min(1, len(targets))]
	}
	for _, target := range targets {
		names = append(names, f.Name+target)
	}
	return names
}

// Check returns the problems of the tools' names with [ToolPerTarget], and nil with other forms. own reports whether
// the agent itself has a tool with a name.
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
