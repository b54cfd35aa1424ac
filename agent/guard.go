package agent

import (
	"context"
	"fmt"
	"math"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Guard checks what reaches an agent and what leaves it. An error of a check is a
// tripwire: it ends the turn with a [*TripwireError], and no model is asked and no
// tool run after it. Checks may call models or services of their own; a nil check
// lets everything pass. The checks of one run are made one after the other; runs
// that run side by side are checked concurrently.
//
// The guards of a workflow also check what is said in the scopes of its agents, and
// in the scopes of agent tools in those. Out then gets the invocation of the agent
// that says it. A refusal ends that agent's run, and the workflow decides how it
// continues.
type Guard struct {
	Name string
	// In checks what the agent receives: what the user said, whenever the agent
	// begins to answer it, also after a transfer; the input of an agent in an
	// inner scope; and each result of the agent's tools.
	In func(ctx context.Context, inv *Invocation, in Ingress) error
	// Out checks, before it is stored, each text of the agent, each question to the user
	// that its tools ask, each summary made for it, and the output that it finishes with
	// if that differs. With streaming, no delta of a text is shown before Out has passed
	// the whole text, see [Guard.Window]. Out also checks the agent's reasoning, and the
	// messages of its errors: those are withheld if it refuses them, and end nothing.
	Out func(ctx context.Context, inv *Invocation, text string) error

	held int // one more than the window's characters, 0 for the whole text, less than 0 for nothing
}

// HeldWhole is what [Guard.Held] returns for a guard that holds whole texts.
const HeldWhole = math.MaxInt

// Window returns the guard with a sliding window over streamed text: with each delta, Out
// checks the text from its beginning to that delta, and all of it but its last n
// characters is shown. In a long text, Out waits until a 64th of it is new. Out has to judge
// unfinished text. Something that it refuses is not shown, not even in part, if it has at most
// n+1 characters. Out checks the whole text at its end as well. A negative n holds the whole text, as a guard without a window does.
//
// Refused text ends the turn when the model's answer is complete; until then nothing more of
// it is shown, and a discard takes back what was shown before.
func (g Guard) Window(n int) Guard {
	g.held = max(n, -1) + 1
	return g
}

// StreamUnchecked returns the guard without its hold on streamed text: consumers see each
// delta at once, Out checks only whole texts, and a discard takes refused text back.
// Out does not check reasoning then.
func (g Guard) StreamUnchecked() Guard {
	g.held = -1
	return g
}

// Held returns how many characters of a streamed text the guard holds back: [HeldWhole] for
// the whole text, -1 for nothing, and if the guard has no Out.
func (g Guard) Held() int {
	switch {
	case g.held < 0 || g.Out == nil:
		return -1
	case g.held == 0:
		return HeldWhole
	}
	return g.held - 1
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

func (e *TripwireError) Error() string { return fmt.Sprintf("%s: %v", e.Refusal(), e.Err) }

// Refusal says what the guard refused, without the guard's own error, which may quote it. It is
// what the log and clients are shown.
func (e *TripwireError) Refusal() string {
	what := "the words of " + e.Agent
	switch e.Kind {
	case IngressUser, IngressTransfer:
		what = "the user's message to " + e.Agent
	case IngressInput:
		what = "the input of " + e.Agent
	case IngressTool:
		what = "the result of the tool " + e.Tool + " of " + e.Agent
	}
	return fmt.Sprintf("the guard %q refused %s", e.Guard, what)
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
