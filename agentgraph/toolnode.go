package agentgraph

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// Tool returns the agent of a tool node. It calls the tool with the node's input, and the tool's output is the node's
// output. See [llmagent.ToolAgent].
func Tool(t tools.Tool) (agent.Agent, error) { return llmagent.ToolAgent(t) }

const toolPrefix = "tool:"

// ToolRef returns the reference of a tool node that names no agent. A [Resolver] is called with it, and [WithRefs]
// accepts it to declare that the tool exists.
func ToolRef(tool string) string { return toolPrefix + tool }

func isTool(ref string) bool { return strings.HasPrefix(ref, toolPrefix) }

// Runs describes what the node runs: "tool lookup", "tools of agent", the reference of its agent, or "" for a graph.
func (n *Node) Runs() string {
	switch {
	case n.ToolsOf != "":
		return "tools of " + n.ToolsOf
	case n.Tool == "":
		return n.Ref
	case isTool(n.Ref) || n.Ref == n.Tool:
		return "tool " + n.Tool
	}
	return "tool " + n.Tool + " of " + n.Ref
}

// ResolveTools returns a resolver for the tool nodes of these tools.
func ResolveTools(all ...tools.Tool) Resolver {
	return func(ref string, _ map[string]any) (agent.Agent, error) {
		for _, t := range all {
			if t != nil && ref == ToolRef(t.Info().Name) {
				return Tool(t)
			}
		}
		return nil, fmt.Errorf("%w %q", ErrUnknownRef, ref)
	}
}

// toolsOf checks that each node named by toolsOf has an agent with tools.
func (c *checker) toolsOf() {
	for i, n := range c.graph.Nodes {
		if n.ToolsOf == "" {
			continue
		}
		at := index(c.path("agents"), i) + ".toolsOf"
		of, ok := c.ids[n.ToolsOf]
		switch {
		case !ok:
			c.add(CodeUnknownAgentRef, at, c.nodeLines[i].tool, "no agent has the id %q%s", visible.Cut(n.ToolsOf, 60), c.idHint(n.ToolsOf))
		case c.graph.Nodes[of].Tool != "" || c.graph.Nodes[of].ToolsOf != "" || c.graph.Nodes[of].Graph != nil:
			c.add(CodeUnknownAgentRef, at, c.nodeLines[i].tool, "%q is not an agent with a model: only such an agent has tools that another node can run", visible.Cut(n.ToolsOf, 60))
		}
	}
}

// Resolve returns the agent of a node without a graph: the agent of its reference, or the tool of that agent if the
// node calls one.
func (n *Node) Resolve(resolve Resolver) (agent.Agent, error) {
	a, err := resolve(n.Ref, n.Config)
	if err != nil || a == nil || n.Tool == "" || isTool(n.Ref) {
		return a, err
	}
	has, ok := a.(interface {
		ToolAgent(tool string) (agent.Agent, error)
	})
	if !ok {
		return nil, fmt.Errorf("the agent %q has no tools of its own, and so no %q", n.Ref, n.Tool)
	}
	return has.ToolAgent(n.Tool)
}

// splitter is an agent whose tools another node can run.
type splitter interface {
	Split() (model, runs agent.Agent, err error)
}

// member returns the agent of a node, given or newly made.
func (a *Agent) member(n *planNode, resolve Resolver) (agent.Agent, error) {
	if n.ToolsOf != "" {
		return a.runsTools(n, resolve)
	}
	member, given := a.given[n.ID]
	var err error
	switch {
	case given:
	case n.Graph != nil:
		member, err = a.inner(n, resolve)
	case resolve != nil:
		member, err = n.Resolve(resolve)
	}
	if g, ok := member.(*Agent); ok && n.Loop != nil {
		return g.inLoop(), nil
	}
	if err != nil || member == nil || n.toolsAt == "" {
		return member, err
	}
	if s, ok := member.(splitter); ok {
		member, _, err = s.Split()
	} else if !given { // a given agent may pass its calls on itself
		err = fmt.Errorf("the agent %q has no tools of its own for %q to run", n.Ref, n.toolsAt)
	}
	return member, err
}

// runsTools returns the agent of a node that runs the tools of another node's agent. It splits the agent given for
// either node, or a new one.
func (a *Agent) runsTools(n *planNode, resolve Resolver) (agent.Agent, error) {
	of := &a.plan.nodes[a.plan.index[n.ToolsOf]]
	member := a.given[n.ID]
	s, ok := member.(splitter)
	if !ok && member != nil { // a mock, or an already split agent
		return member, nil
	}
	if !ok {
		s, ok = a.given[of.ID].(splitter)
	}
	if !ok && resolve != nil {
		made, err := resolve(of.Ref, of.Config)
		if err != nil {
			return nil, err
		}
		s, ok = made.(splitter)
	}
	if !ok {
		return nil, fmt.Errorf("the agent %q has no tools of its own to run", of.Ref)
	}
	_, runs, err := s.Split()
	return runs, err
}

// lastMessage returns the last message in the output of a split agent.
func lastMessage(v Values) (map[string]any, error) {
	object, _ := v.Output.(map[string]any)
	if messages, _ := object["messages"].([]any); len(messages) > 0 {
		if m, ok := messages[len(messages)-1].(map[string]any); ok {
			return m, nil
		}
	}
	return nil, errors.New("the output has no messages: it is not that of an agent whose tools another node runs")
}

// HasCalls reports whether the last message calls tools. Use it with [When] on the edge from an agent to the node that
// runs its tools.
func HasCalls(v Values) (bool, error) {
	m, err := lastMessage(v)
	return m["tool_calls"] != nil, err
}

// Answered reports whether the last message is an answer without calls. Use it with [LoopOrFail] and [LoopUntil] around
// an agent and the node that runs its tools.
func Answered(v Values) (bool, error) {
	m, err := lastMessage(v)
	return m["role"] == "assistant" && m["tool_calls"] == nil, err
}

// Answer returns the text of the last message. Use it with [Output] on a node with such a loop.
func Answer(v Values) (any, error) {
	m, err := lastMessage(v)
	return m["content"], err
}
