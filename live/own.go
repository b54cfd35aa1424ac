package live

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/view"
)

// Private returns a function that reports whether an event is a tool call, its progress or its result
// that the view of another agent of the tree hides.
func Private(tree *agent.Tree) func(*event.Event) bool {
	type viewer struct {
		name   string
		policy view.Policy
	}
	var viewers []viewer
	for n := range tree.Walk() {
		var own view.Policy
		if a, ok := agent.As[interface{ History() view.Policy }](n.Agent); ok {
			own = a.History()
		}
		if policy := view.For(n, own); policy.HidesSome() {
			viewers = append(viewers, viewer{n.Agent.Name(), policy})
		}
	}
	return func(e *event.Event) bool {
		switch e.Data.(type) {
		case *event.ToolCall, *event.ToolProgress, *event.ToolResult:
		default:
			return false
		}
		for _, v := range viewers {
			if v.name != e.Agent && v.policy.HidesFacts(e) {
				return true
			}
		}
		return false
	}
}

// Own returns a function that returns an event of a conversation as its user sees it without the right to
// inspect, or nil if the user does not see it. It withholds what models think and are shown, what routers
// decide, the calls that [Private] reports and what endpoints and libraries said of failures; approval requests stay as they are.
func Own(tree *agent.Tree) func(*event.Event) *event.Event {
	private := Private(tree)
	return func(e *event.Event) *event.Event {
		shown := *e
		switch d := e.Data.(type) {
		case *event.Reasoning, *event.Route, *event.Compaction, *event.RemoteTask, *event.Unknown:
			return nil
		case *event.HarnessStart: // the input is what another agent has asked
			shown.Data = &event.HarnessStart{AgentID: d.AgentID}
		case *event.Transfer:
			t := *d
			t.Payload, t.RouteDecision = nil, nil
			shown.Data = &t
		case *event.Failure:
			shown.Data = d.Public()
		case *event.Discard:
			shown.Data = d.Public()
		case *event.Notice:
			shown.Data = publicNotice(d)
		case *event.HandoffStatus:
			h := *d
			h.RouteDecision = ""
			shown.Data = &h
		default:
			if private(e) {
				return nil
			}
			return e
		}
		return &shown
	}
}

// publicNotice returns a notice without what an endpoint, a server of tools or a library said.
func publicNotice(n *event.Notice) *event.Notice {
	public := *n
	switch n.Code {
	case event.NoticeCompactionFailed:
		public.Message = "the earlier part of the conversation could not be summarized"
	case event.NoticeToolset:
		public.Message = "the tools of the agent have changed"
	case event.NoticeRouteFailed:
		public.Message = "a route could not be decided"
	}
	return &public
}
