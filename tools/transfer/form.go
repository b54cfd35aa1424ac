package transfer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// Tools says by how many tools a model is offered its targets.
type Tools int

const (
	// OneTool offers one tool for all targets, whose argument agent_name says which.
	OneTool Tools = iota + 1
	// ToolPerTarget offers a tool for each target, which is named after it.
	ToolPerTarget
)

// Fitting returns what was asked for, or if that is 0 a tool for each target; but one for
// all where its name was chosen, and where one of the names of the others is not legal.
// Own reports whether a name is that of a tool of the agent's own.
func Fitting(asked Tools, named bool, targets []string, own func(name string) bool) Tools {
	switch {
	case asked != 0:
		return asked
	case named, len(DefaultForm(ToolPerTarget).Check(targets, own)) > 0:
		return OneTool
	}
	return ToolPerTarget
}

// prefix is what the names of tools begin with that are for one target each.
const prefix = "transfer_to_"

// What an instruction about transfers can hold, for what a request offers.
const (
	// ToolHere is replaced by the name of the tool, or with [ToolPerTarget] by what
	// the names of all begin with.
	ToolHere = "{tool}"
	// TargetsHere is replaced by the targets, each in a line "- NAME:
	// DESCRIPTION".
	TargetsHere = "{targets}"
)

// Instruction tells a model with targets about transfers, unless its agent brings words
// of its own. Of the words that were measured with small models (docs/routing.md) these
// route best.
const Instruction = "Other agents work beside you:\n" + TargetsHere +
	"\nWhen the user's message is about what one of them is for, hand the conversation over at once by calling " + ToolHere +
	" for that agent: do not ask the user anything first, do not answer, do not announce it." +
	" The other agent reads the whole conversation and answers. Answer yourself only what none of them is for."

// The descriptions of the tools, unless an agent brings words of its own. The
// tool's targets follow, as in the instruction.
const (
	Description          = "Hands the conversation to another agent, who sees all of it and answers in your place. The agents:" // of [OneTool]
	DescriptionPerTarget = "Hands the conversation to this agent, who sees all of it and answers in your place:"
)

// Form is how a model is shown the targets of its agent, and how it calls for one.
type Form struct {
	Tools Tools
	// Name is that of the one tool, or what the names of all begin with.
	Name        string
	Description string
	Instruction string // with what it holds in the place of targets; "" for none
}

// DefaultForm returns the form in the package's own words.
func DefaultForm(t Tools) Form {
	if t == ToolPerTarget {
		return Form{t, prefix, DescriptionPerTarget, Instruction}
	}
	return Form{t, agent.TransferTool, Description, Instruction}
}

// Offer returns what a model is offered for transfers from the agent's place to these
// of its targets: the tools, and the instruction for the system text, both empty
// without targets. Targets are in the order given, names and descriptions byte for byte
// as they are. The inputs that targets need are the property "input".
func (f Form) Offer(n *agent.Node, targets []*agent.Node) (specs []llm.ToolSpec, instruction string) {
	switch {
	case len(targets) == 0:
		return nil, ""
	case f.Tools == ToolPerTarget:
		for i, t := range targets {
			specs = append(specs, f.tool(n, f.Name+t.Agent.Name(), targets[i:i+1]))
		}
	default:
		specs = []llm.ToolSpec{f.tool(n, f.Name, targets)}
	}
	return specs, strings.NewReplacer(ToolHere, f.Name, TargetsHere, Lines(targets)).Replace(f.Instruction)
}

// Lines shows the targets to a model: each in a line "- NAME: DESCRIPTION", byte for byte.
func Lines(targets []*agent.Node) string {
	shown := make([]string, len(targets))
	for i, t := range targets {
		shown[i] = "- " + t.Agent.Name()
		if d := t.Agent.Description(); d != "" {
			shown[i] += ": " + d
		}
	}
	return strings.Join(shown, "\n")
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
		names := make([]string, len(targets))
		for i, t := range targets {
			names[i] = t.Agent.Name()
		}
		schema.Properties.AgentName = &property{"string", names, "The agent that takes over"}
		schema.Required = []string{"agent_name"}
	}
	var all bool
	if schema.Properties.Input, all = inputs(n, targets); all {
		schema.Required = append(schema.Required, "input")
	}
	return llm.ToolSpec{Name: name, Description: f.Description + "\n" + Lines(targets), Parameters: event.EncodeJSON(schema), Aliases: aliases(name, targets)}
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
		if in := n.InputFor(t); in != nil {
			wanted = append(wanted, titled{"For " + t.Agent.Name(), []json.RawMessage{in.Schema}})
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

// Names returns the names of the tools that are offered for these targets.
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
