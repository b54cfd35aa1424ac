package tools

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// ClientKey is where the metadata of a user's message keeps the [ClientTools] of the turn. Clients of the APIs cannot
// write it.
const ClientKey = "arbor.tools"

// The limits of the tools that a client brings for a turn.
const (
	MaxClientTools      = 128
	MaxClientToolsBytes = 256 << 10
)

// ClientTools are functions that the client of a user runs itself, such as a page that shows a map. The agent that
// answers the user is offered them beside its own tools, and so is each agent that it transfers to. A call of one
// pauses the turn as a question does, an event.Relay with Client set, and its answer is the result of the call.
type ClientTools struct {
	Tools []ClientTool `json:"tools"`
	// Agents are the names of the agents that are offered the tools; empty means every agent that answers the user.
	Agents []string `json:"agents,omitempty"`
	// Choice steers the first calls of a run, as [llm.Settings] do; "" is the agent's own choice.
	Choice llm.ToolChoice `json:"choice,omitempty"`
}

// ClientTool is a function as the model is shown it.
type ClientTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Parameters is the JSON schema of the arguments; nil is that of a function without any.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// ClientToolsIn returns those in the metadata of a user's message, nil if there are none. The error says that the
// metadata holds something else.
func ClientToolsIn(metadata map[string]any) (*ClientTools, error) {
	kept, ok := metadata[ClientKey]
	if !ok {
		return nil, nil
	}
	c := &ClientTools{}
	if err := json.Unmarshal(event.EncodeJSON(kept), c); err != nil {
		return nil, fmt.Errorf("the metadata %s: %w", ClientKey, err)
	}
	return c, nil
}

// For reports whether an agent is offered the tools.
func (c *ClientTools) For(agent string) bool {
	return len(c.Agents) == 0 || slices.Contains(c.Agents, agent)
}

// Registry returns the tools for an agent. The error names the tool that cannot be one, and why.
func (c *ClientTools) Registry() (*Registry, error) {
	if len(c.Tools) > MaxClientTools {
		return nil, fmt.Errorf("there are %d tools; at most %d are allowed", len(c.Tools), MaxClientTools)
	}
	all, size := make([]Tool, len(c.Tools)), 0
	for i, b := range c.Tools {
		size += len(b.Name) + len(b.Description) + len(b.Parameters)
		if string(b.Parameters) == "null" {
			b.Parameters = nil
		}
		spec := llm.ToolSpec{Name: b.Name, Description: b.Description, Parameters: b.Parameters}
		t, err := New(Info{ToolSpec: spec, Resumable: true, Client: true}, func(ctx Context, _ json.RawMessage) (any, error) {
			return ctx.Ask("the result of "+b.Name+", a tool of the user's client", nil)
		})
		if err != nil {
			return nil, err
		}
		all[i] = t
	}
	if size > MaxClientToolsBytes {
		return nil, fmt.Errorf("the tools have %d bytes; at most %d are allowed", size, MaxClientToolsBytes)
	}
	return NewRegistry(all...)
}
