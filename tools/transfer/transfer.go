// Package transfer implements the built-in tool transfer_to_agent. [Form] describes how a request offers the tool.
// [Offered] returns the targets to offer at this moment of a run. [Parse] reads a call, and [Resolve] returns the
// target that the call means.
//
// The package decides about one call; the agent and the runner commit the transfer.
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

// Offered returns the targets to offer to the agent's model at this moment of its run, in the order of
// [agent.Node.Targets]. It offers
//   - none after a limit was reached, or after the routing question chose the agent itself,
//   - never an agent that returned the conversation in this turn, and
//   - only children and a person to an agent that a transfer started and that has not said or done anything since, if
//     its policy has HoldOnArrival, its models are small, or the turn has had a transfer up or sideways without any
//     text. This does not apply on the way to an agent that the routing question has chosen. With small models it
//     applies to the whole run, because they transfer away after the first result of a tool.
//
// The caller must not change the slice.
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

// Call contains the arguments of a model's call for a transfer.
type Call struct {
	Target string          `json:"agent_name"`
	Reason string          `json:"reason"`
	Input  json.RawMessage `json:"input,omitempty"`
}

// Parse reads the arguments of a call. It trims spaces, and decodes a JSON string that contains the JSON object. The
// error is for the model: the arguments are not an object, or its member agent_name is not a string.
func Parse(input json.RawMessage) (Call, error) {
	if name, ok := plainTarget(input); ok {
		return Call{Target: name}, nil
	}
	var c Call
	if json.Unmarshal(input, &c) == nil && c.Target != "" {
		c.Target, c.Reason = strings.TrimSpace(c.Target), strings.TrimSpace(c.Reason)
		return c, nil
	}
	return parseLenient(input)
}

// plainTarget reads arguments that consist of a plain name only. Most arguments do, and this takes a tenth of the time.
func plainTarget(input json.RawMessage) (string, bool) {
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

// parseLenient reads arguments that do not follow the schema exactly.
func parseLenient(input json.RawMessage) (Call, error) {
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
		c.Reason = "" // a reason of another type does not make the call invalid
	}
	c.Target = strings.TrimSpace(c.Target)
	c.Reason = strings.TrimSpace(c.Reason)
	return c, nil
}

// Input returns the arguments of a transfer to the agent with this name, for a call whose tool names the agent. It
// keeps all members that the model gave, except the name of another agent.
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
	_ = json.Unmarshal(given, &members) // any other value has no members
	maps.DeleteFunc(members, isTargetKey)
	if len(members) > 0 {
		out = append(append(out, ','), event.EncodeJSON(members)[1:]...)
	} else {
		out = append(out, '}')
	}
	return out
}

// targetKey is the argument that names the target. encoding/json ignores the case of keys.
const targetKey = "agent_name"

func isTargetKey(key string, _ json.RawMessage) bool { return strings.EqualFold(key, targetKey) }

// unwrap decodes a JSON string that contains a JSON object, which must not be wrapped twice.
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
	case !slices.Contains(targets, target): // [Offered] omits it at this moment
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

// refusal is the error of a call for an agent that was not offered. Its text is for the model, and so does not contain
// the texts of the errors that it matches.
type refusal struct {
	text    string
	unknown bool // no legal target has the name
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
	if meant := nearest.Within(name, names, len(name)/2); meant != "" { // models misspell and invent names
		s += " Did you mean " + meant + "?"
	}
	return s
}

func quote(name string) string {
	return fmt.Sprintf("%q", visible.Cut(name, 80))
}
