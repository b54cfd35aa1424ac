package agent

// TransferPolicy says where an agent may transfer to besides its own children,
// which are always allowed, and a person. The zero value allows nothing more. (Parents
// and peers are opt-in, as redpanda-data/ai-sdk-go issue 95 asks.)
type TransferPolicy struct {
	AllowTransferToParent bool
	AllowTransferToPeers  bool
	// HoldOnArrival offers an agent that has got the conversation by a transfer only its
	// children, and a person, until it has said something or a tool has answered it. Small
	// models need it: they transfer on arrival, because another agent's description often
	// fits as well. Without it such an agent may transfer once up or sideways in a turn.
	HoldOnArrival bool
	// NoHuman keeps the agent from transferring to a person. Without it an agent of a
	// runner that has a desk may do so.
	NoHuman bool
}

// ReturnPolicy says who answers the user's next message after an agent that the
// conversation was handed to has answered.
type ReturnPolicy int

// The return policies.
const (
	// StayActive keeps the agent in charge until it hands on. It is the default.
	StayActive ReturnPolicy = iota
	// ReturnToParent starts the next turn at the agent's parent; nothing more is
	// called now.
	ReturnToParent
)

// Edge is the way from a parent to a child, with its options.
type Edge struct {
	To Agent
	// HideReason keeps from the target's model the reason and the input of the transfer.
	HideReason bool
	// History is the view policy that replaces the target's own on this edge. It
	// is opaque here; package view gives and reads it.
	History any
	// Around is the view policy by which the agents behind the edge, where they run in a scope
	// of their own, see the conversation around; nil shows nothing of it. Package view gives and
	// reads it.
	Around any
	// When makes the edge a route; see the option of that name.
	When Condition
	// Input is what a transfer over the edge must carry; nil requires nothing.
	Input *TransferInput
	// Guards check what goes over the edge; see [GuardedBy].
	Guards []Guard
	// OnError names the agent that continues if this one fails; see the option of that name.
	OnError string
}

// EdgeOption changes an edge. View policies of package view are edge options.
type EdgeOption interface{ ApplyEdge(*Edge) }

type edgeOptionFunc func(*Edge)

func (f edgeOptionFunc) ApplyEdge(e *Edge) { f(e) }

// HideReason keeps from the model of the edge's target the reason and the input of a transfer
// over the edge. Without it the model reads both.
func HideReason() EdgeOption {
	return edgeOptionFunc(func(e *Edge) { e.HideReason = true })
}

// OnError names the agent that continues in the same turn, with the whole conversation, if a
// run of the child, or of an agent below it, ends with an error: an error of its model, of its
// endpoint or of its own, a timeout, a panic. What the agent has said stays, and an
// [event.Route] says what failed. A turn that was cancelled, that has reached a limit or that
// a guard has ended is not continued. The target is any agent of the tree that is neither
// below nor above the child, or [Human].
func OnError(target string) EdgeOption {
	return edgeOptionFunc(func(e *Edge) { e.OnError = target })
}

// Via wraps a child with options for the edge that leads to it. The wrapper is
// for WithSubAgents; elsewhere it behaves like the child itself.
func Via(child Agent, opts ...EdgeOption) Agent {
	e := edgeTo(child)
	for _, o := range opts {
		if o != nil {
			o.ApplyEdge(&e)
		}
	}
	return &edgeAgent{Agent: e.To, edge: e}
}

type edgeAgent struct {
	Agent
	edge Edge
}

func (a *edgeAgent) Unwrap() Agent { return a.Agent }

// EdgesOf turns children, some of them wrapped by [Via], into edges.
func EdgesOf(children []Agent) []Edge {
	edges := make([]Edge, len(children))
	for i, c := range children {
		edges[i] = edgeTo(c)
	}
	return edges
}

// AgentsOf returns the children that edges lead to.
func AgentsOf(edges []Edge) []Agent {
	agents := make([]Agent, len(edges))
	for i, e := range edges {
		agents[i] = e.To
	}
	return agents
}

// edgeTo returns the edge to a child, with the options that Via has put around it, or
// around what it wraps.
func edgeTo(child Agent) Edge {
	if e, ok := child.(*edgeAgent); ok {
		return e.edge
	}
	var edge Edge
	if e, ok := As[*edgeAgent](child); ok {
		edge = e.edge
	}
	edge.To = child
	return edge
}

// TransferTool is the name of the built-in tool by which a model transfers.
const TransferTool = "transfer_to_agent"
