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

// kit is what an agent has in one step: its own tools, those of its sets and of the user's client, and the form of its
// output. It is immutable and safe for concurrent use.
type kit struct {
	agent     *Agent
	tools     []tools.Tool
	byName    map[string]tools.Tool
	output    *output           // nil: text
	choice    llm.ToolChoice    // the tool choice of the client; "": that of the settings
	forbidden map[string]string // the reasons why tools must not run, by the tools' names
	templates *sync.Map         // *agent.Node → *template: the full template of each place in a tree

	hasExtraTools bool              // the kit has more than the agent's own tools
	registries    []*tools.Registry // of the sets, in their order; nil for a set without tools now
	held          []*tools.Registry // the last lists of the sets without tools now, whose names no other set gets
	missingSets   []string          // the names of the sets that have no tools now
	omitted       []string          // notices about tools that are omitted
	badPolicy     bool              // a rule of the agent's policy matches nothing
}

// newKit returns the kit of an agent's own tools, and all errors in them.
func newKit(a *Agent) (*kit, []error) {
	k := &kit{agent: a, tools: a.tools, byName: make(map[string]tools.Tool, len(a.tools)), output: a.output, templates: new(sync.Map)}
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
			errs = append(errs, fmt.Errorf("two tools have the name %q", n))
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

// has reports whether the kit has a tool with this name.
func (k *kit) has(name string) bool { return k.byName[name] != nil }

// noTool returns the error for a tool that the kit does not have.
func (k *kit) noTool(name string) error {
	names := make([]string, len(k.tools))
	for i, t := range k.tools {
		names[i] = t.Info().Name
	}
	return fmt.Errorf("agent %q has no tool %q%s", k.agent.name, name, nearest.Hint(name, names))
}
