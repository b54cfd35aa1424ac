package agent

import "reflect"

// TransferPolicy sets where an agent may transfer to in addition to its children and a person. The zero value allows
// nothing more. (Transfers to parents and peers are opt-in, as redpanda-data/ai-sdk-go issue 95 asks.)
type TransferPolicy struct {
	AllowTransferToParent bool
	AllowTransferToPeers  bool
	// HoldOnArrival limits an agent that a transfer has started: until it has said something or a tool has answered
	// it, it may transfer only to its children and a person. Small models need it. They transfer on arrival, because
	// another agent's description often fits as well. Without it, such an agent may transfer once to its parent or a
	// peer in a turn.
	HoldOnArrival bool
	// NoHuman keeps the agent from transferring to a person. Without it, an agent of a runner with a desk may do so.
	NoHuman bool
}

// ReturnPolicy sets which agent answers the user's next message after an agent that a transfer started has answered.
type ReturnPolicy int

// The return policies.
const (
	// StayActive keeps the agent active until it transfers. It is the default.
	StayActive ReturnPolicy = iota
	// ReturnToParent starts the next turn at the agent's parent. The parent does not run in the current turn.
	ReturnToParent
)

// Edge is the connection from a parent to a child, with its options.
type Edge struct {
	To Agent
	// HideReason hides the reason and the input of the transfer from the target's model.
	HideReason bool
	// History is the view policy that replaces the target's own on this edge. It is opaque to this package; package
	// view sets and reads it.
	History any
	// Around is the view policy by which the agents below the edge, when they run in a scope of their own, see the
	// surrounding conversation. nil hides all of it. Package view sets and reads the policy.
	Around any
	// When makes the edge a route; see the option [When].
	When Condition
	// Input is the input that a transfer over the edge must carry; nil requires none.
	Input *TransferInput
	// Guards check what passes over the edge; see [GuardedBy].
	Guards []Guard
	// OnError names the agent that continues if this one fails; see the option [OnError].
	OnError string
}

// EdgeOption configures an edge. The view policies of package view are edge options.
type EdgeOption interface{ ApplyEdge(*Edge) }

type edgeOptionFunc func(*Edge)

func (f edgeOptionFunc) ApplyEdge(e *Edge) { f(e) }

// HideReason hides the reason and the input of a transfer over the edge from the target's model. By default the model
// reads both.
func HideReason() EdgeOption {
	return edgeOptionFunc(func(e *Edge) { e.HideReason = true })
}

// OnError names the agent that continues in the same turn, with the whole conversation, if a run of the child, or of
// an agent below it, ends with an error: an error of its model, of its endpoint or of its own, a timeout, or a panic.
// The agent's texts stay in the conversation, and an [event.Route] records the error. A turn that was cancelled, that
// has reached a limit or that a guard has ended does not continue. The target is any agent of the tree that is neither
// below nor above the child, or [Human].
func OnError(target string) EdgeOption {
	return edgeOptionFunc(func(e *Edge) { e.OnError = target })
}

// Via wraps a child with options of the edge to it. The wrapper is for WithSubAgents; elsewhere it behaves like the
// child itself. Nil options are ignored.
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

// EdgesOf returns the edges to children, with the options of [Via].
func EdgesOf(children []Agent) []Edge {
	edges := make([]Edge, len(children))
	for i, c := range children {
		edges[i] = edgeTo(c)
	}
	return edges
}

// AgentsOf returns the children of edges.
func AgentsOf(edges []Edge) []Agent {
	agents := make([]Agent, len(edges))
	for i, e := range edges {
		agents[i] = e.To
	}
	return agents
}

// edgeTo returns the edge to a child, with the options of Via around the child or around an agent that it wraps. For a nil
// pointer, which a constructor has returned with an error, the edge leads to nil.
func edgeTo(child Agent) Edge {
	if v := reflect.ValueOf(child); v.Kind() == reflect.Pointer && v.IsNil() {
		return Edge{}
	}
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
