package eval

import (
	"fmt"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/tools"
)

// Check returns an error for names in cases that a tree does not have: agents, and tools unless an agent has tools that
// are unknown before it runs, such as those of a server. The error is an [*Error], or that of the tree.
func Check(cases []Case, root agent.Agent) error {
	tree, err := agent.NewTree(root)
	if err != nil {
		return err
	}
	k := knownOf(tree)
	for i := range cases {
		k.check(&cases[i])
	}
	return yamldoc.AsError(k.problems)
}

// known contains the names of a tree.
type known struct {
	tree     *agent.Tree
	agents   []string
	tools    []string
	more     bool // there may be other tools
	problems []Problem
}

func knownOf(tree *agent.Tree) *known {
	k := &known{tree: tree, agents: []string{agent.Human}, tools: []string{agent.TransferTool}}
	for n := range tree.Walk() {
		k.agents = append(k.agents, n.Agent.Name())
	}
	k.toolsOf(tree.Root().Agent, map[agent.Agent]bool{})
	return k
}

// toolsOf collects the tools of an agent and of all agents that it runs.
func (k *known) toolsOf(a agent.Agent, seen map[agent.Agent]bool) {
	if a == nil || seen[a] {
		return
	}
	seen[a] = true
	p := agent.PropertiesOf(a)
	if with, ok := agent.As[interface{ Tools() []tools.Tool }](a); ok {
		for _, t := range with.Tools() {
			if name := t.Info().Name; !slices.Contains(k.tools, name) {
				k.tools = append(k.tools, name)
			}
		}
	} else if !p.Router && p.Flow == "" {
		k.more = true // a function, a graph, or a remote agent
	}
	if sets, ok := agent.As[interface{ Toolsets() []tools.Set }](a); ok && len(sets.Toolsets()) > 0 {
		k.more = true
	}
	for _, sub := range slices.Concat(a.SubAgents(), p.Inner) {
		k.toolsOf(sub, seen)
	}
}

func (k *known) check(c *Case) {
	for i := range c.Turns {
		t := &c.Turns[i]
		add := func(format string, args ...any) {
			k.problems = append(k.problems, Problem{File: c.File, Line: t.Line, Message: fmt.Sprintf(format, args...)})
		}
		names := func(what, key string, names, known []string) {
			for _, name := range names {
				if !slices.Contains(known, name) {
					add("%s: no %s of the tree has the name %q%s", key, what, visible.Cut(name, 60), nearest.Listed(name, known))
				}
			}
		}
		e := &t.Expect
		for _, step := range e.Path {
			names("agent", "path", step, k.agents)
		}
		names("agent", "answers", e.Answers, k.agents)
		if i == 0 && len(e.Path) > 0 && len(e.Path[0]) > 0 && !slices.Contains(e.Path[0], k.tree.Root().Agent.Name()) {
			add("path: the first turn begins at %s, so that %s cannot come about: write %[1]s > %[2]s, or answers: %[3]s",
				k.tree.Root().Agent.Name(), e.Path, label(e.Path[len(e.Path)-1]))
		}
		if k.more {
			continue
		}
		names("tool", "tools", e.Tools, k.tools)
		names("tool", "noTools", e.NoTools, k.tools)
		names("tool", "asks", e.Asks, k.tools)
		names("tool", "approve", t.Approve, k.tools)
		names("tool", "deny", t.Deny, k.tools)
		names("tool", "reply", slices.Sorted(maps.Keys(t.Reply)), k.tools)
	}
}
