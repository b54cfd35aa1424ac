package front

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// ClientTools says which agents are offered the tools of clients. The zero value offers them to every agent that
// answers the user.
type ClientTools struct {
	// Only are the names of the agents that are offered them; with Limited set and no names, none is.
	Only    []string
	Limited bool
}

// None reports whether no agent is offered them.
func (t ClientTools) None() bool { return t.Limited && len(t.Only) == 0 }

// Check reports a name that no agent of the tree has.
func (t ClientTools) Check(tree *agent.Tree) error {
	for _, name := range t.Only {
		if tree.Node(name) == nil {
			return fmt.Errorf("the tools of clients are to be offered to %.64q, and the tree has no such agent", name)
		}
	}
	return nil
}

// Keep puts the tools that a client has brought into the metadata of its words. The error says what is wrong with
// them: each has to be a function that a model can be offered, and no agent of the tree has a tool of the name.
func (t ClientTools) Keep(tree *agent.Tree, brought []tools.ClientTool, choice llm.ToolChoice, metadata map[string]any) error {
	if len(brought) == 0 || choice == llm.ToolChoiceNone {
		return nil
	}
	if t.None() {
		return errors.New("tools of clients are offered to no agent of this server")
	}
	kept := &tools.ClientTools{Tools: brought, Agents: t.Only, Choice: choice}
	if _, err := kept.Registry(); err != nil {
		return err
	}
	for n := range tree.Walk() {
		for _, name := range append(names(n.Agent), n.Agent.Name(), agent.TransferTool) {
			if slices.ContainsFunc(brought, func(b tools.ClientTool) bool { return b.Name == name }) {
				return fmt.Errorf("the client and the agent %s both have %q: give the client's tool another name", n.Agent.Name(), name)
			}
		}
	}
	metadata[tools.ClientKey] = event.DecodeValue(event.EncodeJSON(kept))
	return nil
}

// names are those of an agent's tools, as far as sets have listed theirs.
func names(a agent.Agent) (all []string) {
	if with, ok := agent.As[interface{ Tools() []tools.Tool }](a); ok {
		for _, t := range with.Tools() {
			all = append(all, t.Info().Name)
		}
	}
	if with, ok := agent.As[interface{ Toolsets() []tools.Set }](a); ok {
		for _, s := range with.Toolsets() {
			if s, ok := s.(interface{ Listed() *tools.Registry }); ok {
				all = append(all, s.Listed().Names()...)
			}
		}
	}
	return all
}

// ClientCalls returns the calls among questions that wait for a result of the user's client.
func ClientCalls(asked []*event.Relay) (calls []*event.Relay) {
	for _, q := range asked {
		if q.Client {
			calls = append(calls, q)
		}
	}
	return calls
}

// Questions returns the questions that people answer.
func Questions(asked []*event.Relay) (questions []*event.Relay) {
	for _, q := range asked {
		if !q.Client {
			questions = append(questions, q)
		}
	}
	return questions
}
