package agent

import (
	"context"
	"encoding/json"

	"github.com/agentarbor/arbor/event"
)

// Properties are what the tree, the runner, and the models of other agents need to know about an agent in addition to
// its methods. The zero value is that of an agent without special properties. An agent with properties implements
//
//	Properties() agent.Properties
//
// and always returns the same: each tree calls the method once. An agent that wraps another one returns the result of
// [PropertiesOf] for that agent, with its own changes.
type Properties struct {
	// Edges are the edges to the sub-agents, with their options. nil means the agents of SubAgents, without options.
	Edges []Edge
	// Inner lists the agents that this one runs in scopes of their own, such as the nodes of a graph, so that budgets
	// can be set for them.
	Inner []Agent
	// Policy sets where the agent may transfer to.
	Policy TransferPolicy
	// Return sets which agent answers the user's next message if a transfer started this agent.
	Return ReturnPolicy
	// Routes are transfers that need no model, in addition to those on the edges.
	Routes []Route
	// Guards check what the agent receives and what it says.
	Guards []Guard
	// Budgets limit what the agent may spend; those of the root also limit the whole tree.
	Budgets Budgets
	// Workflow reports that the agent only runs other agents, as a sequence or a graph does. Its children cannot
	// transfer to it, nor to each other.
	Workflow bool
	// Flow is how a workflow runs its Inner agents: FlowSequential, FlowParallel or FlowLoop. Diagrams use it. It is
	// "" for a graph, which draws itself.
	Flow string
	// Tool is the tool that the agent calls in each run. Diagrams use it. It is "" if the agent does not run exactly
	// one tool.
	Tool string
	// Router reports that the agent chooses without a model which agent answers. It may transfer to any agent below
	// it, not only to its children. Its transfers count against no limit. If the active agent of a turn is below it,
	// the turn begins with the router, or with another router above it.
	Router bool
	// Stepwise reports that a step of the agent ends after it has stored calls and before they run. Between two steps,
	// nothing has begun that the log does not contain.
	Stepwise bool
	// SmallModels reports that the models of this agent and of all agents below it are small. LLM agents then present
	// transfers in the form with which small models route best.
	SmallModels bool
	// SharedRequests, at the root of a tree, makes LLM agents of one model send requests that differ only at the
	// end; see [WithSharedRequests].
	SharedRequests bool
	// TransferApproval reports that each transfer of the agent needs an approval.
	TransferApproval bool
	// ViewByFunction reports that a function of the program chooses or changes what the agent's model sees of a
	// conversation.
	ViewByFunction bool
	// Anticipation, at the root of a tree, is the probability, above 0 and at most 1, that a predicted transfer must
	// have for the runner to ask the target's model early. 0 never asks early. The runner's option replaces it.
	Anticipation float64
	// AnyName reports that the name is a label in a workflow, which no model sees. The name may be any text.
	AnyName bool
	// GlobalInstruction precedes the instructions of this agent and of all agents below it.
	GlobalInstruction string
	// TransferCall returns a transfer in the form in which the agent's own model would have called it at its place in
	// the tree: the name of the tool, and its arguments, from the arguments in the log. In the log the tool is always
	// [TransferTool]. nil means that the agent's model uses that tool too.
	TransferCall func(at *Node, input json.RawMessage) (name string, arguments json.RawMessage)
}

// The values of [Properties.Flow].
const (
	FlowSequential = "sequential"
	FlowParallel   = "parallel"
	FlowLoop       = "loop"
)

// PropertiesOf returns the properties of an agent, or of the agent that it wraps.
func PropertiesOf(a Agent) Properties {
	if p, ok := As[interface{ Properties() Properties }](a); ok {
		return p.Properties()
	}
	return Properties{}
}

// As returns the agent as a T, or the first agent that is a T among those that it wraps. ok is false if there is none.
// An agent that wraps another one implements Unwrap() Agent, so that it keeps the abilities of the other, such as that
// of a [Readier].
func As[T any](a Agent) (found T, ok bool) {
	for ; a != nil; a = unwrap(a) {
		if found, ok = a.(T); ok {
			return found, true
		}
	}
	return found, false
}

func unwrap(a Agent) Agent {
	if w, ok := a.(interface{ Unwrap() Agent }); ok {
		return w.Unwrap()
	}
	return nil
}

// Readier is implemented by agents that may be unable to start, such as remote ones. The runner calls Ready before it
// commits a transfer that an agent requests. After an error the conversation stays where it is. If a router has chosen
// the agent, or if the agent continues after another one failed, there is no such place: the runner commits the
// transfer and calls Ready when the agent's run begins, and an error fails that run. Ready must be safe for concurrent
// use, and must return when ctx ends.
type Readier interface {
	Ready(ctx context.Context) error
}

// Canceler is implemented by agents whose run may leave something waiting elsewhere, such as a remote task that asked
// for input. The runner calls Cancel when the turn is cancelled. When the user sends another message, it also calls
// Cancel for what waits in inner scopes. Cancel returns the events to record, or none if nothing waits. No other code
// uses the session at the same time.
type Canceler interface {
	Cancel(ctx context.Context, inv *Invocation) ([]event.Data, error)
}

// Checker is implemented by agents that can only be checked at their place in a tree, for example against the names of
// the agents to which they may transfer. CheckNode returns the problems.
type Checker interface{ CheckNode(n *Node) []string }
