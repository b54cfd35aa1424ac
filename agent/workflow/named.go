package workflow

import "github.com/agentarbor/arbor/agent"

// Named returns the agent with another name for use in a workflow. The name may be any text, because no agent
// transfers to it. All else, including the options of [agent.Via], stays the agent's own. If the agent is nil, the
// result is nil.
func Named(a agent.Agent, name string) agent.Agent {
	if a == nil {
		return nil
	}
	return &named{a, name}
}

type named struct {
	agent.Agent
	name string
}

func (n *named) Name() string        { return n.name }
func (n *named) Unwrap() agent.Agent { return n.Agent }

func (n *named) Properties() agent.Properties {
	p := agent.PropertiesOf(n.Agent)
	p.AnyName = true
	return p
}

func (n *named) FindAgent(name string) agent.Agent {
	switch name {
	case n.name:
		return n
	case n.Agent.Name(): // not its name in the workflow
		return nil
	}
	return n.Agent.FindAgent(name)
}
