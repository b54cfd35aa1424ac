package agent

import (
	"context"
	"encoding/json"

	"github.com/agentarbor/arbor/event"
)

// TransferPolicy says where an agent may transfer to besides its own children,
// which are always allowed. The zero value allows nothing more. (Both are
// opt-in, as redpanda-data/ai-sdk-go issue 95 asks.)
type TransferPolicy struct {
	AllowTransferToParent bool
	AllowTransferToPeers  bool
	// AllowTransferBack lets the agent's model hand a conversation back at once to the
	// agent that has just handed it over. Otherwise that agent is a target only after
	// this one has said or done something: small models hand back on arrival, because
	// the sender's description often fits as well. It widens nothing else, and does not
	// concern functions, or a target that did not take over.
	AllowTransferBack bool
}

// Transferrer is implemented by agents that have a transfer policy.
type Transferrer interface{ TransferPolicy() TransferPolicy }

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

// Returner is implemented by agents that have a return policy.
type Returner interface{ Return() ReturnPolicy }

// Readier is implemented by agents that may be unable to start, such as remote
// ones. Ready is asked before a transfer to the agent is committed; an error
// keeps the conversation where it is.
type Readier interface {
	Ready(ctx context.Context) error
}

// Canceler is implemented by agents that may leave something waiting elsewhere when
// their run ends, such as a remote task that asked for input. Cancel is asked when the
// turn is given up; it returns what is to be recorded of that, nothing if nothing
// waits. It runs while nobody else uses the session.
type Canceler interface {
	Cancel(ctx context.Context, inv *Invocation) ([]event.Data, error)
}

// Workflow is implemented by agents that only conduct others, such as sequences
// and graphs: a child cannot transfer up to one.
type Workflow interface{ Workflow() }

// Edge is the way from a parent to a child, with the options that lie on it.
type Edge struct {
	To Agent
	// ShowReason shows the transfer's reason to the target.
	ShowReason bool
	// History is the view policy that replaces the target's own on this edge. It
	// is opaque here; package view gives and reads it.
	History any
	// When makes the edge a route; see the option of that name.
	When Condition
	// Input is what a transfer over the edge must carry; nil wants nothing.
	Input *TransferInput
	// Guards check what goes over the edge; see [GuardedBy].
	Guards []Guard
}

// EdgeOption changes an edge. View policies of package view are edge options.
type EdgeOption interface{ ApplyEdge(*Edge) }

type edgeOptionFunc func(*Edge)

func (f edgeOptionFunc) ApplyEdge(e *Edge) { f(e) }

// ShowReason lets the target of the edge read why it was handed the conversation.
func ShowReason() EdgeOption {
	return edgeOptionFunc(func(e *Edge) { e.ShowReason = true })
}

// Via wraps a child with options for the edge that leads to it. The wrapper is
// for WithSubAgents; elsewhere it behaves like the child itself.
func Via(child Agent, opts ...EdgeOption) Agent {
	e := Edge{To: child}
	if inner, ok := child.(*edgeAgent); ok {
		e = inner.edge
	}
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

// EdgesOf turns children, some of them wrapped by [Via], into edges.
func EdgesOf(children []Agent) []Edge {
	edges := make([]Edge, len(children))
	for i, c := range children {
		if e, ok := c.(*edgeAgent); ok {
			edges[i] = e.edge
		} else {
			edges[i] = Edge{To: c}
		}
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

func edgesOf(a Agent) []Edge {
	if e, ok := a.(interface{ Edges() []Edge }); ok {
		return e.Edges()
	}
	return EdgesOf(a.SubAgents())
}

// TransferTool is the name of the built-in tool by which a model transfers.
const TransferTool = "transfer_to_agent"

// GlobalInstructor is implemented by agents that have something to tell the models of all
// agents of their tree under them, and their own.
type GlobalInstructor interface{ GlobalInstruction() string }

// TransferCaller is implemented by agents whose model may call for transfers by another
// name. In the log the tool is always [TransferTool].
type TransferCaller interface {
	// TransferCall returns the call as the agent's model makes it at its place, of the arguments that
	// stand in the log: the name of the tool, and the arguments for that.
	TransferCall(at *Node, input json.RawMessage) (name string, arguments json.RawMessage)
}
