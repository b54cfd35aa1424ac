package live

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/view"
)

// Private returns a function that reports whether an event is a tool call, its progress or its result that the view
// policy of another agent of the tree hides.
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

// Own returns a function that returns an event of a conversation in the form for a user who may not inspect the
// session, or nil if that user must not see it. It withholds reasoning, summaries, routers' decisions, inputs, the
// calls that [Private] reports, and the texts of endpoints and libraries in failures. Approval requests do not
// change. The function does not change the given event.
func Own(tree *agent.Tree) func(*event.Event) *event.Event {
	private := Private(tree)
	return func(e *event.Event) *event.Event {
		shown := *e
		switch d := e.Data.(type) {
		case *event.Reasoning, *event.Route, *event.Compaction, *event.RemoteTask, *event.Unknown:
			return nil
		case *event.HarnessStart: // the input comes from another agent
			shown.Data = &event.HarnessStart{AgentID: d.AgentID}
		case *event.Transfer:
			t := *d
			if t.Payload, t.RouteDecision = nil, nil; t.TransferType == event.TransferTypeRefused {
				t.Reason = refused
			}
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

// publicNotice returns a notice without the text of an endpoint, a remote agent, a tool server or a library, and without
// the expressions of graphs.
func publicNotice(n *event.Notice) *event.Notice {
	public := *n
	switch n.Code {
	case event.NoticeCompactionFailed:
		public.Message = "the earlier part of the conversation could not be summarized"
	case event.NoticeToolset:
		public.Message = "the tools of the agent have changed"
	case event.NoticeRouteFailed:
		public.Message = "a route failed, so the agent answers itself"
	case event.NoticeUndecided:
		public.Message = "no agent was chosen"
	case event.NoticeTransferRefused:
		public.Message = refused
	case event.NoticeRoutingError:
		public.Message = "a condition of a graph failed"
	case event.NoticeLoopLimit:
		public.Message = "a loop has reached its limit"
	}
	return &public
}

// refused is what a user reads of an agent's reason not to accept a conversation.
const refused = "the agent did not accept the conversation"
