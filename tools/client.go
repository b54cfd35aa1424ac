package tools

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// ClientKey is the key of a turn's [ClientTools] in the metadata of the user's message. Clients of the APIs cannot set
// it.
const ClientKey = "arbor.tools"

// The limits of the tools that a client sends for one turn: their number, and the bytes of their names, descriptions
// and schemas.
const (
	maxClientTools      = 128
	maxClientToolsBytes = 256 << 10
)

// ClientTools are functions that a user's client runs itself, such as a page that shows a map. The agent that answers
// the user can call them in addition to its own tools, and so can each agent that it transfers to. A call pauses the
// turn with a question, an event.Relay with Client set. The answer to the question is the result of the call.
type ClientTools struct {
	Tools []ClientTool `json:"tools"`
	// Agents are the names of the agents that can call the tools. Defaults to every agent that answers the user.
	Agents []string `json:"agents,omitempty"`
	// Choice steers the first calls of a run; see [llm.Settings]. Defaults to the agent's own choice.
	Choice llm.ToolChoice `json:"choice,omitempty"`
}

// ClientTool is a function as the model is shown it.
type ClientTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Parameters is the JSON schema of the arguments. Defaults to the schema of a function without arguments.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// ClientToolsIn returns the tools in the metadata of a user's message, or nil if the metadata has no [ClientKey]. It
// returns an error if the value has another form.
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

// For reports whether an agent can call the tools.
func (c *ClientTools) For(agent string) bool {
	return len(c.Agents) == 0 || slices.Contains(c.Agents, agent)
}

// Registry returns the tools for an agent. The error says which tool or limit is wrong.
func (c *ClientTools) Registry() (*Registry, error) {
	if len(c.Tools) > maxClientTools {
		return nil, fmt.Errorf("there are %d tools; at most %d are allowed", len(c.Tools), maxClientTools)
	}
	size := 0
	for _, b := range c.Tools {
		size += len(b.Name) + len(b.Description) + len(b.Parameters)
	}
	if size > maxClientToolsBytes {
		return nil, fmt.Errorf("the tools have %d bytes; at most %d are allowed", size, maxClientToolsBytes)
	}
	all := make([]Tool, len(c.Tools))
	for i, b := range c.Tools {
		if none := string(b.Parameters); none == "null" || none == "{}" { // some clients write "no parameters" so
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
	return NewRegistry(all...)
}
