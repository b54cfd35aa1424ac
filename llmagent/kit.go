package llmagent

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// kit is what an agent has at a time: its own tools, those of its sets and of the user's client, and the form of its
// answers. It is not changed.
type kit struct {
	agent  *Agent
	tools  []tools.Tool
	byName map[string]tools.Tool
	output *output           // nil: text
	choice llm.ToolChoice    // of the client's tools; "" for that of the settings
	denies map[string]string // the tools that must not run, and why
	places *sync.Map         // *agent.Node → *offer: all that the agent is offered in its place

	extended bool              // it has tools in addition to the agent's own
	from     []*tools.Registry // of the sets
	lacks    []string          // the sets that have no tools now
	left     []string          // notices about tools that are left out
	unsure   bool              // a rule of the agent's policy matches nothing
}

// newKit returns the kit of an agent's own tools, and everything that is wrong with them.
func newKit(a *Agent) (*kit, []error) {
	k := &kit{agent: a, tools: a.tools, byName: make(map[string]tools.Tool, len(a.tools)), output: a.output, places: new(sync.Map)}
	var errs []error
	for i, t := range a.tools {
		if t == nil {
			errs = append(errs, fmt.Errorf("tool %d is nil", i))
			continue
		}
		switch n := t.Info().Name; {
		case n == agent.TransferTool, n == a.form.Name:
			errs = append(errs, fmt.Errorf("the tool name %s is reserved", n))
		case tools.CheckName(n) != nil:
			errs = append(errs, tools.CheckName(n))
		case k.has(n):
			errs = append(errs, fmt.Errorf("there are two tools %q", n))
		default:
			k.byName[n] = t
		}
	}
	return k, errs
}

// settings returns the agent's settings with the tool choice of the client.
func (k *kit) settings() llm.Settings {
	settings := k.agent.settings
	settings.ToolChoice = cmp.Or(k.choice, settings.ToolChoice)
	return settings
}

// has reports whether the kit has a tool.
func (k *kit) has(name string) bool { return k.byName[name] != nil }

// noTool returns the error for a tool that the kit does not have.
func (k *kit) noTool(name string) error {
	names := make([]string, len(k.tools))
	for i, t := range k.tools {
		names[i] = t.Info().Name
	}
	return fmt.Errorf("agent %q has no tool %q%s", k.agent.name, name, nearest.Hint(name, names))
}
