package agent

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Guard checks what reaches an agent and what leaves it. An error of a check is
// a tripwire: it ends the turn with a [*TripwireError], and nothing more is asked
// or run. Checks may call models or services of their own; a nil one lets
// everything pass. The checks of one run are made one after the other, those of runs
// side by side at once.
//
// The guards of a workflow also check what is said in the scopes of its agents, in
// those of agent tools in them as well: Out is asked then with the invocation of the
// agent that says it. A refusal ends that agent's run, and what becomes of the
// workflow is the workflow's to say.
type Guard struct {
	Name string
	// In checks what comes in: what the user said, whenever the agent begins to
	// answer it, also after a transfer; what an agent of an inner scope was given;
	// and each result of the agent's tools.
	In func(ctx context.Context, inv *Invocation, in Ingress) error
	// Out checks each text of the agent, each summary made for it, and the output that
	// it finishes with if that is something else, before it is stored. With streaming,
	// the consumer has seen its deltas by then, and a discard takes them back.
	Out func(ctx context.Context, inv *Invocation, text string) error
}

// IngressKind says by which way something reaches an agent.
type IngressKind string

// The ways in.
const (
	IngressUser     IngressKind = "user"     // the user's message, to the agent that is active
	IngressTransfer IngressKind = "transfer" // the user's message, by a transfer
	IngressInput    IngressKind = "input"    // the input of an inner scope
	IngressTool     IngressKind = "tool"     // a tool's result
)

// Ingress is what reaches an agent.
type Ingress struct {
	Kind    IngressKind
	Content llm.Content
	// Transfer is the transfer that started the agent, for IngressTransfer.
	Transfer *event.Transfer
	// Tool and CallID name the call, for IngressTool.
	Tool, CallID string
}

// TripwireError is the error of a turn that a guard ended.
type TripwireError struct {
	Guard, Agent string
	// Kind is the way in, "" if it was the agent's own words that the guard refused.
	Kind IngressKind
	Tool string // whose result it was, for IngressTool
	Err  error
}

func (e *TripwireError) Error() string {
	what := "the words of " + e.Agent
	switch e.Kind {
	case IngressUser, IngressTransfer:
		what = "the user's message to " + e.Agent
	case IngressInput:
		what = "the input of " + e.Agent
	case IngressTool:
		what = "the result of the tool " + e.Tool + " of " + e.Agent
	}
	return fmt.Sprintf("the guard %q refused %s: %v", e.Guard, what, e.Err)
}

// Withheld is what a model may read: the guard's own error may quote what the
// guard has refused.
func (e *TripwireError) Withheld() string { return "withheld by the guard " + e.Guard }

// Unwrap returns the guard's own error.
func (e *TripwireError) Unwrap() error { return e.Err }

// GuardedBy puts guards on the edge to an agent, after the agent's own. It works
// for any agent, remote ones included.
func GuardedBy(guards ...Guard) EdgeOption {
	return edgeOptionFunc(func(e *Edge) { e.Guards = append(e.Guards[:len(e.Guards):len(e.Guards)], guards...) })
}

// Guards returns the guards of an agent at its place in the tree: its own, then those of the
// edge that leads to it. The slice is shared.
func (n *Node) Guards() []Guard { return n.guards }

func (b *treeBuilder) findGuards(n *Node) {
	n.guards = append(n.guards, n.Properties.Guards...)
	n.guards = append(n.guards, n.Edge.Guards...)
	for _, g := range n.guards {
		if g.Name == "" {
			b.problem(n.Agent.Name(), n.Path, "a guard of the agent %q has no name", n.Agent.Name())
		}
	}
}
