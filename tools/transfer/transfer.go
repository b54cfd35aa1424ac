// Package transfer is the built-in tool transfer_to_agent: what is offered to a
// model ([Offer]), how its call is read ([Parse]), how a name that is almost
// right is mended ([Repair]), which targets there are at a moment ([Withheld]), and
// which of them a call means ([Resolve]).
//
// It imports agent and llm. It decides about one call; committing a transfer is
// the agent's and the runner's part.
package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// Instruction is what an agent that has targets is told about transfers, unless
// it brings words of its own.
const Instruction = "You may hand this conversation to another agent by calling " + agent.TransferTool +
	". Do so when another agent is better suited to the user's request. Do not announce it and do not explain it:" +
	" the other agent reads the whole conversation and answers. When you are the right one, answer yourself."

// Description is what a model is told about the tool, unless its agent brings
// words of its own. The targets follow.
const Description = "Hands the conversation to another agent, who sees all of it and answers in your place. The agents:"

// Withheld returns the target that the agent's model may not hand over to yet: the
// agent from which the conversation has just come, by the transfer handed, which is
// nil once the agent has said or done something in its run. It returns nil if there
// is none: after a route, whose source has answered, and where the policy lets the
// model hand back at once to an agent that did take the conversation over.
func Withheld(n *agent.Node, p agent.TransferPolicy, handed *agent.Transfer) *agent.Node {
	switch {
	case handed == nil, handed.TransferType == agent.TransferTypeRoute:
		return nil
	case p.AllowTransferBack && handed.TransferType != agent.TransferTypeRefused:
		return nil
	}
	i := slices.IndexFunc(n.Targets(), func(t *agent.Node) bool { return t.Agent.Name() == handed.From })
	if i < 0 {
		return nil
	}
	return n.Targets()[i]
}

// Offer returns the tool for an agent in its place that may hand over to these of its
// targets, and false if there are none. Targets stand in the order given, names and
// descriptions byte for byte as they are. The inputs that targets need have the
// property "input".
func Offer(n *agent.Node, targets []*agent.Node) (llm.ToolSpec, bool) {
	return OfferAs(n, targets, agent.TransferTool, Description)
}

// OfferAs is Offer with a name and a description of one's own.
func OfferAs(n *agent.Node, targets []*agent.Node, name, description string) (llm.ToolSpec, bool) {
	if len(targets) == 0 {
		return llm.ToolSpec{}, false
	}
	var b strings.Builder
	b.WriteString(description)
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.Agent.Name()
		b.WriteString("\n- " + names[i])
		if d := t.Agent.Description(); d != "" {
			b.WriteString(": " + d)
		}
	}
	type property struct {
		Type        string   `json:"type"`
		Enum        []string `json:"enum,omitempty"`
		Description string   `json:"description"`
	}
	schema := struct {
		Type       string `json:"type"`
		Properties struct {
			AgentName property `json:"agent_name"`
			Reason    property `json:"reason"`
			Input     any      `json:"input,omitempty"`
		} `json:"properties"`
		Required             []string `json:"required"`
		AdditionalProperties bool     `json:"additionalProperties"`
	}{Type: "object", Required: []string{"agent_name"}}
	schema.Properties.AgentName = property{"string", names, "The agent that takes over"}
	schema.Properties.Reason = property{"string", nil, "Why, in a few words"}
	var all bool
	if schema.Properties.Input, all = inputs(n, targets); all {
		schema.Required = append(schema.Required, "input")
	}
	return llm.ToolSpec{Name: name, Description: b.String(), Parameters: agent.EncodeJSON(schema)}, true
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

// Call is a transfer that a model asks for.
type Call struct {
	Target string          `json:"agent_name"`
	Reason string          `json:"reason"`
	Input  json.RawMessage `json:"input"`
}

// Parse reads the arguments of a call. Surrounding space is dropped, and a JSON
// string that holds the JSON object is opened; anything else that is not an
// object with the string agent_name is an error for the model to read.
func Parse(input json.RawMessage) (Call, error) {
	if name, ok := bareName(input); ok {
		return Call{Target: name}, nil
	}
	var c Call
	if json.Unmarshal(input, &c) == nil && c.Target != "" {
		c.Target, c.Reason = strings.TrimSpace(c.Target), strings.TrimSpace(c.Reason)
		return c, nil
	}
	return parseOdd(input)
}

// bareName reads arguments that are nothing but a plain name, which most are, at
// a tenth of the cost.
func bareName(input json.RawMessage) (string, bool) {
	name, ok := bytes.CutPrefix(input, []byte(`{"agent_name":"`))
	if ok {
		name, ok = bytes.CutSuffix(name, []byte(`"}`))
	}
	if !ok || len(name) == 0 {
		return "", false
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return "", false
		}
	}
	return string(name), true
}

// parseOdd reads arguments that are not just as the schema has them.
func parseOdd(input json.RawMessage) (Call, error) {
	var wrapped struct {
		Raw       *string         `json:"raw"`
		AgentName json.RawMessage `json:"agent_name"`
		Reason    json.RawMessage `json:"reason"`
		Input     json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(input, &wrapped); err != nil {
		return Call{}, errors.New("the arguments are not a JSON object")
	}
	if wrapped.Raw != nil && wrapped.AgentName == nil {
		inner, ok := unwrap(*wrapped.Raw)
		if !ok {
			return Call{}, errors.New("the arguments are not a JSON object")
		}
		return Parse(inner)
	}
	c := Call{Input: wrapped.Input}
	switch {
	case len(wrapped.AgentName) == 0 || bytes.Equal(wrapped.AgentName, []byte("null")):
		return Call{}, errors.New("agent_name is missing")
	case json.Unmarshal(wrapped.AgentName, &c.Target) != nil:
		return Call{}, errors.New("agent_name is not a string")
	}
	if json.Unmarshal(wrapped.Reason, &c.Reason) != nil {
		c.Reason = "" // a reason that is no string is no reason to refuse
	}
	c.Target = strings.TrimSpace(c.Target)
	c.Reason = strings.TrimSpace(c.Reason)
	return c, nil
}

// Input makes the arguments of a transfer to target of those of a call that used
// the target's bare name as a tool: its reason is kept.
func Input(target *agent.Node, bare json.RawMessage) json.RawMessage {
	args := struct {
		AgentName string          `json:"agent_name"`
		Reason    string          `json:"reason,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
	}{}
	_ = json.Unmarshal(bare, &args) // what cannot be read is no reason
	args.AgentName = target.Agent.Name()
	return agent.EncodeJSON(args)
}

// unwrap opens a JSON string of a JSON object, once.
func unwrap(raw string) (json.RawMessage, bool) {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		return nil, false
	}
	inner := json.RawMessage(strings.TrimSpace(text))
	if len(inner) == 0 || inner[0] != '{' || !json.Valid(inner) {
		return nil, false
	}
	var again struct{ Raw *string }
	if json.Unmarshal(inner, &again) == nil && again.Raw != nil {
		return nil, false
	}
	return inner, true
}

// Repair returns the agent that a name means: exactly, or the only legal target
// (or the agent itself) that differs from it in case alone.
func Repair(n *agent.Node, tree *agent.Tree, name string) *agent.Node {
	if exact := tree.Node(name); exact != nil {
		return exact
	}
	var found *agent.Node
	for _, t := range append([]*agent.Node{n}, n.Targets()...) {
		if strings.EqualFold(t.Agent.Name(), name) {
			if found != nil {
				return nil
			}
			found = t
		}
	}
	return found
}

// Resolve returns the one of the targets that a call of the agent means, or an error
// that tells the model what to do instead. The targets are those that were offered.
func Resolve(n *agent.Node, tree *agent.Tree, targets []*agent.Node, c Call) (*agent.Node, error) {
	target := Repair(n, tree, c.Target)
	switch {
	case target == n:
		return nil, fmt.Errorf("you are %s: you are already handling this conversation; answer it yourself: %w", n.Agent.Name(), agent.ErrTransferRejected)
	case target == nil:
		return nil, &UnknownTarget{Name: c.Target, targets: targets, why: "there is no agent " + quote(c.Target)}
	case !n.MayTransferTo(target):
		return nil, &UnknownTarget{Name: c.Target, targets: targets, why: "you may not transfer to " + quote(c.Target)}
	case !slices.Contains(targets, target):
		return nil, &TooEarly{Target: target.Agent.Name(), targets: targets}
	}
	if err := n.InputFor(target).Check(c.Input); err != nil {
		return nil, fmt.Errorf("the input for %s: %w: %w", target.Agent.Name(), err, agent.ErrTransferRejected)
	}
	return target, nil
}

// UnknownTarget is a refused target. It is an agent.ErrUnknownTarget.
type UnknownTarget struct {
	Name    string
	targets []*agent.Node
	why     string
}

func (e *UnknownTarget) Error() string { return e.why + ". " + Legal(e.targets, e.Name) }

// Is makes errors.Is(err, agent.ErrUnknownTarget) and
// errors.Is(err, agent.ErrTransferRejected) true.
func (e *UnknownTarget) Is(target error) bool {
	return target == agent.ErrUnknownTarget || target == agent.ErrTransferRejected
}

// TooEarly is a refused transfer back to the agent from which the conversation has
// just come. It is an agent.ErrTransferRejected.
type TooEarly struct {
	Target  string
	targets []*agent.Node
}

func (e *TooEarly) Error() string {
	told := "the conversation has just come to you from " + e.Target + ": answer it yourself"
	if len(e.targets) > 0 {
		told += ". " + Legal(e.targets, "")
	}
	return told
}

// Is makes errors.Is(err, agent.ErrTransferRejected) true.
func (e *TooEarly) Is(target error) bool { return target == agent.ErrTransferRejected }

// Legal is the sentence that names the targets, and the one of them that is nearest
// to a name which is not legal.
func Legal(targets []*agent.Node, name string) string {
	var names []string
	nearest, best := "", len(name)/2+1
	for _, t := range targets {
		names = append(names, t.Agent.Name())
		if d := distance(strings.ToLower(name), strings.ToLower(t.Agent.Name())); d < best {
			nearest, best = t.Agent.Name(), d
		}
	}
	if len(names) == 0 {
		return "You have nobody to transfer to: answer yourself."
	}
	s := "You can transfer to: " + strings.Join(names, ", ") + "."
	if nearest != "" {
		s += " Did you mean " + nearest + "?"
	}
	return s
}

func quote(name string) string {
	if len(name) > 80 {
		name = strings.ToValidUTF8(name[:80], "") + "…"
	}
	return fmt.Sprintf("%q", name)
}

// distance is the number of letters to change, add or drop; names beyond 64
// letters are no agent's and count as far away.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return math.MaxInt
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
