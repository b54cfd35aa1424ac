package workflow

import "github.com/agentarbor/arbor/agent"

// Named returns the agent under another name, for a workflow in which it has one: any
// text, because nobody transfers to it. All else is the agent's own, the options that
// [agent.Via] has put around it included.
// It is nil if the agent is.
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
	case n.Agent.Name(): // which it does not have here
		return nil
	}
	return n.Agent.FindAgent(name)
}
