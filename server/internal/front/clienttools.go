package front

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
)

// ClientTools selects the agents that can call the tools of clients. The zero value selects every agent that answers
// the user.
type ClientTools struct {
	// Only are the names of the selected agents, if Limited is set.
	Only    []string
	Limited bool
}

// None reports whether it selects no agent.
func (t ClientTools) None() bool { return t.Limited && len(t.Only) == 0 }

// Check returns an error if the tree has no agent with one of the names.
func (t ClientTools) Check(tree *agent.Tree) error {
	for _, name := range t.Only {
		if tree.Node(name) == nil {
			return fmt.Errorf("the option for the tools of clients names the agent %.64q, which the tree does not have", name)
		}
	}
	return nil
}

// Keep stores the tools that a client sent in the metadata of its message. It returns an error if a tool is invalid,
// or if an agent of the tree, or one of its tools, has the name of a tool.
func (t ClientTools) Keep(tree *agent.Tree, sent []tools.ClientTool, choice llm.ToolChoice, metadata map[string]any) error {
	if len(sent) == 0 || choice == llm.ToolChoiceNone {
		return nil
	}
	if t.None() {
		return errors.New("no agent of this server accepts tools of clients")
	}
	kept := &tools.ClientTools{Tools: sent, Agents: t.Only, Choice: choice}
	if _, err := kept.Registry(); err != nil {
		return err
	}
	transfers := transfer.DefaultForm(transfer.ToolPerTarget).Name
	for n := range tree.Walk() {
		for _, name := range append(toolNames(n.Agent), n.Agent.Name(), agent.TransferTool, transfers+n.Agent.Name()) {
			if slices.ContainsFunc(sent, func(b tools.ClientTool) bool { return b.Name == name }) {
				return fmt.Errorf("the client and the agent %s both have %q: give the client's tool another name", n.Agent.Name(), name)
			}
		}
	}
	metadata[tools.ClientKey] = event.DecodeValue(event.EncodeJSON(kept))
	return nil
}

// toolNames returns the names of an agent's tools, and of the tools that its sets have listed.
func toolNames(a agent.Agent) (all []string) {
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

// ClientCalls returns the questions that are calls of the client's tools.
func ClientCalls(asked []*event.Relay) []*event.Relay {
	return slices.DeleteFunc(slices.Clone(asked), func(q *event.Relay) bool { return !q.Client })
}

// PersonQuestions returns the questions that people answer.
func PersonQuestions(asked []*event.Relay) []*event.Relay {
	return slices.DeleteFunc(slices.Clone(asked), func(q *event.Relay) bool { return q.Client })
}
