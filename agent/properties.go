package agent

import (
	"context"
	"encoding/json"

	"github.com/agentarbor/arbor/event"
)

// Properties are what the tree, the runner, and the models of other agents have to know
// of an agent besides its methods. The zero value is that of an agent with nothing to
// tell. An agent that has something implements
//
//	Properties() agent.Properties
//
// and returns the same each time: it is asked once for each tree. An agent that wraps
// another one returns that one's, from [PropertiesOf], with what it changes.
type Properties struct {
	// Edges are the ways to the sub-agents with their options; nil means those of
	// SubAgents, without options.
	Edges []Edge
	// Inner are the agents that this one runs in scopes of their own, as a graph does
	// its nodes, so that budgets can be set for them.
	Inner []Agent
	// Policy says where the agent may transfer to.
	Policy TransferPolicy
	// Return says who answers after the agent if the conversation was handed to it.
	Return ReturnPolicy
	// Routes are transfers that need no model, besides those on the edges.
	Routes []Route
	// Guards check what the agent receives and what it says.
	Guards []Guard
	// Budgets bound what the agent may spend, and of the root what everybody may.
	Budgets Budgets
	// Workflow says that the agent only runs others, as a sequence or a graph does: its
	// children cannot transfer to it, nor to each other.
	Workflow bool
	// Flow is how a workflow runs its Inner agents, for those who draw it: FlowSequential,
	// FlowParallel or FlowLoop; "" for a graph, which draws itself.
	Flow string
	// Tool is the tool that the agent calls in each run, for those who draw it; "" if it is
	// not the agent of one tool.
	Tool string
	// Router says that the agent chooses without a model who answers. It may transfer to any
	// agent below it, not only to its children; its transfers count against no limit; and a
	// turn whose active agent is below it begins with it, or with another router above it.
	Router bool
	// Stepwise says that a step of the agent ends before the calls run that it has stored, so that between two
	// steps nothing was begun that the log does not have.
	Stepwise bool
	// SmallModels says that the models of this agent and of all agents under it are small: LLM
	// agents then show them transfers in the way that small models were measured to route best with.
	SmallModels bool
	// SharedRequests says, of the root of a tree, that LLM agents of one model send requests that differ only in the last
	// message; see [WithSharedRequests].
	SharedRequests bool
	// TransferApproval says that somebody has to approve each transfer of the agent.
	TransferApproval bool
	// ViewByFunction says that a function of the program chooses or changes what the agent's model sees of a conversation.
	ViewByFunction bool
	// Anticipation is, of the root of a tree, how sure a prediction has to be for the probable target of a transfer to be
	// asked ahead, over 0 and at most 1; 0 never asks ahead. The runner's option replaces it.
	Anticipation float64
	// AnyName says that the name is a label in a workflow, which no model is shown: it
	// may be any text.
	AnyName bool
	// GlobalInstruction begins the instructions of the models of all agents under this one, and its own.
	GlobalInstruction string
	// TransferCall returns a transfer as the agent's own model would have called it at
	// its place in the tree: the name of the tool, and its arguments, made from those in
	// the log. In the log the tool is always [TransferTool]. Nil means that the agent's
	// model uses that one too.
	TransferCall func(at *Node, input json.RawMessage) (name string, arguments json.RawMessage)
}

// The values of [Properties.Flow].
const (
	FlowSequential = "sequential"
	FlowParallel   = "parallel"
	FlowLoop       = "loop"
)

// PropertiesOf returns the properties of an agent, or of the one that it wraps.
func PropertiesOf(a Agent) Properties {
	if p, ok := As[interface{ Properties() Properties }](a); ok {
		return p.Properties()
	}
	return Properties{}
}

// As returns the agent as a T, or the nearest of those that it wraps which is one, and
// whether there is such. An agent that wraps another one implements Unwrap() Agent; so
// it keeps what the other one can do, such as being a [Readier].
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

// Readier is implemented by agents that may be unable to start, such as remote ones. The runner calls Ready
// before it commits a transfer that an agent asks for; an error keeps the conversation where it is. If a
// router has chosen the agent, or if the agent is to continue for one that failed, there is no such place:
// the runner commits the transfer, calls Ready when the agent's run begins, and an error fails that run. Ready is safe for concurrent use, and returns when ctx ends.
type Readier interface {
	Ready(ctx context.Context) error
}

// Canceler is implemented by agents that may leave something waiting elsewhere when
// their run ends, such as a remote task that asked for input. Cancel is called when
// the turn is cancelled, and for what waits inside of others when the user says something
// else; it returns the events to record about that, none if nothing
// waits. It runs while nobody else uses the session.
type Canceler interface {
	Cancel(ctx context.Context, inv *Invocation) ([]event.Data, error)
}

// Checker is implemented by agents that can only be checked in their place, for
// example against the names of the agents they may transfer to. CheckNode returns
// what is wrong.
type Checker interface{ CheckNode(n *Node) []string }
