// Package transfer is the built-in tool transfer_to_agent. [Form] is what a model is
// offered, and the names by which it may call. [Parse] reads a call, and [Repair]
// corrects a name that is almost right. [Offered] returns the targets of the
// moment, and [Resolve] the target that a call means.
//
// The package decides about one call; committing a transfer is the agent's and the runner's part.
package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/view"
)

// Offered returns the targets that the agent's model is offered at this moment of its run, in the order of
// [agent.Node.Targets]: none after a limit or a decision that the agent answers, and never an agent that has returned
// the conversation in this turn. An agent that a transfer has put in charge, and that has not said or done anything
// since, is offered only its children and a person if its policy has HoldOnArrival or its models are small, or if the
// turn has had its one wordless transfer up or sideways; but not on the way to an agent that the question who answers
// has named. With small models that holds for its whole run, because they transfer away once a tool has answered. The
// slice must not be changed.
func Offered(n *agent.Node, p agent.TransferPolicy, run view.Run) []*agent.Node {
	if run.Limited || run.Decided {
		return nil
	}
	small := n.SmallModels()
	held := small && run.Arrived
	if t := run.Transfer; t != nil {
		held = !run.OnTheWay && (run.Bounced || (small || p.HoldOnArrival) && t.TransferType != event.TransferTypeRefused)
	}
	if !held && len(run.Returned) == 0 {
		return n.Targets()
	}
	return slices.DeleteFunc(slices.Clone(n.Targets()), func(t *agent.Node) bool {
		return slices.Contains(run.Returned, t.Agent.Name()) || held && !n.Down(t)
	})
}

// Call is a transfer that a model asks for.
type Call struct {
	Target string          `json:"agent_name"`
	Reason string          `json:"reason"`
	Input  json.RawMessage `json:"input,omitempty"`
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

// Input returns the arguments of a transfer to the agent with this name, from the arguments of a call that names the
// agent by its tool: a tool for this agent alone, or the agent's bare name. It keeps everything that the model gave,
// except the name of another agent.
func Input(name string, given json.RawMessage) json.RawMessage {
	var wrapped struct {
		Raw *string `json:"raw"`
	}
	if json.Unmarshal(given, &wrapped) == nil && wrapped.Raw != nil {
		if inner, ok := unwrap(*wrapped.Raw); ok {
			given = inner
		}
	}
	out := append([]byte(`{"agent_name":`), event.EncodeJSON(name)...)
	var members map[string]json.RawMessage
	_ = json.Unmarshal(given, &members) // what is no object holds nothing
	maps.DeleteFunc(members, isTargetKey)
	if len(members) > 0 {
		out = append(append(out, ','), event.EncodeJSON(members)[1:]...)
	} else {
		out = append(out, '}')
	}
	return out
}

// targetKey is the argument that names the target. JSON is read without regard to the
// case of keys.
const targetKey = "agent_name"

func isTargetKey(key string, _ json.RawMessage) bool { return strings.EqualFold(key, targetKey) }

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

// agentMeant returns the agent that a name means: the agent with exactly this name or, if there is no such agent, the
// only legal target (or n itself) whose name differs from it only in case. It returns nil if the name means no agent.
func agentMeant(n *agent.Node, tree *agent.Tree, name string) *agent.Node {
	if exact, _ := tree.Find(name); exact != nil {
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

// Resolve returns the target that a call of the agent n means. The targets are those that the model was offered. The
// error matches [agent.ErrTransferRejected]; if the name is not that of a legal target, it also matches
// [agent.ErrUnknownTarget]. Its text tells the model what to do instead.
func Resolve(n *agent.Node, tree *agent.Tree, targets []*agent.Node, c Call) (*agent.Node, error) {
	target := agentMeant(n, tree, c.Target)
	switch {
	case target == n:
		return nil, fmt.Errorf("you are %s: you are already handling this conversation; answer it yourself: %w", n.Agent.Name(), agent.ErrTransferRejected)
	case target == nil:
		return nil, &refusal{"there is no agent " + quote(c.Target) + ". " + Legal(targets, c.Target), true}
	case !n.MayTransferTo(target):
		return nil, &refusal{"you may not transfer to " + quote(c.Target) + ". " + Legal(targets, c.Target), true}
	case !slices.Contains(targets, target): // [Offered] leaves it out at this moment
		text := "you cannot transfer to " + target.Agent.Name() + " now: answer the user yourself"
		if len(targets) > 0 {
			text += ". " + Legal(targets, "")
		}
		return nil, &refusal{text, false}
	}
	if err := n.InputFor(target).Check(c.Input); err != nil {
		return nil, fmt.Errorf("the input for %s: %w: %w", target.Agent.Name(), err, agent.ErrTransferRejected)
	}
	return target, nil
}

// refusal is the error of a call that names no target which the model was offered. A model reads its text, which
// therefore does not contain the texts of the errors that it matches.
type refusal struct {
	text    string
	unknown bool // the name is not that of a legal target
}

func (e *refusal) Error() string { return e.text }

func (e *refusal) Is(target error) bool {
	return target == agent.ErrTransferRejected || e.unknown && target == agent.ErrUnknownTarget
}

// Legal returns the sentence that lists the targets for a model, and the target whose name is nearest to a name that
// is not legal.
func Legal(targets []*agent.Node, name string) string {
	var names []string
	for _, t := range targets {
		names = append(names, t.Agent.Name())
	}
	if len(names) == 0 {
		return "You have nobody to transfer to: answer yourself."
	}
	s := "You can transfer to: " + strings.Join(names, ", ") + "."
	if meant := nearest.Within(name, names, len(name)/2); meant != "" { // people mistype, and a model makes names up
		s += " Did you mean " + meant + "?"
	}
	return s
}

func quote(name string) string {
	return fmt.Sprintf("%q", visible.Cut(name, 80))
}
