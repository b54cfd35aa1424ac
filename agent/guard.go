package agent

import (
	"context"
	"fmt"
	"math"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Guard checks what an agent receives and what it says. An error of a check is a tripwire: it ends the turn with a
// [*TripwireError], and no model or tool runs after it. Checks may call models or services. A nil check accepts
// everything. The checks of one run are called one after the other; checks of parallel runs are called concurrently.
//
// The guards of a workflow also check what is said in the scopes of its agents, and in the scopes of agent tools in
// those. Out then gets the invocation of the agent that says it. A refusal ends that agent's run, and the workflow
// decides how it continues.
type Guard struct {
	Name string
	// In checks what the agent receives: the user's message, whenever the agent begins to answer it, also after a
	// transfer; the input of an agent in an inner scope; and each result of the agent's tools.
	In func(ctx context.Context, inv *Invocation, in Ingress) error
	// Out checks the following before it is stored: each text of the agent, each question of its tools to the user,
	// each summary made for it, and the output of its run if that differs. In a streamed turn, no delta is shown
	// before Out has accepted the whole text; see [Guard.Window]. Out also checks the agent's reasoning and the
	// messages of its errors. If it refuses these, they are withheld and the turn continues.
	Out func(ctx context.Context, inv *Invocation, text string) error

	held int // the window's characters plus 1; 0 holds the whole text, and a negative value nothing
}

// HeldWhole is the result of [Guard.Held] for a guard that holds whole texts.
const HeldWhole = math.MaxInt

// Window returns the guard with a sliding window over streamed text. For each delta, Out checks the text up to that
// delta, and all but its last n characters are shown. In a long text, Out is called when a 64th of the text is new.
// Out must judge unfinished text. A refused passage of at most n+1 characters is not shown, not even in part. Out also
// checks the whole text at its end. A negative n holds the whole text, as a guard without a window does.
//
// Refused text ends the turn when the model's answer is complete. Until then nothing more of the answer is shown. A
// discard takes back what was shown before.
func (g Guard) Window(n int) Guard {
	g.held = max(n, -1) + 1
	return g
}

// StreamUnchecked returns the guard without its hold on streamed text: consumers see each delta at once, Out checks
// only whole texts, and a discard takes refused text back. Out does not check reasoning in this case.
func (g Guard) StreamUnchecked() Guard {
	g.held = -1
	return g
}

// Held returns how many characters of a streamed text the guard holds back: [HeldWhole] for the whole text, and -1 for
// nothing or if the guard has no Out.
func (g Guard) Held() int {
	switch {
	case g.held < 0 || g.Out == nil:
		return -1
	case g.held == 0:
		return HeldWhole
	}
	return g.held - 1
}

// IngressKind is the way by which something reaches an agent.
type IngressKind string

// The kinds of ingress.
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
	// Kind is what the guard refused; "" is what the agent said.
	Kind IngressKind
	Tool string // the tool with the refused result, for IngressTool
	Err  error
}

func (e *TripwireError) Error() string { return fmt.Sprintf("%s: %v", e.Refusal(), e.Err) }

// Refusal returns which text the guard refused, without the guard's own error, which may quote that text. The log and
// clients see only the refusal.
func (e *TripwireError) Refusal() string {
	what := "the text of " + e.Agent
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

// Withheld returns the text for a model, without the guard's own error, which may quote the refused text.
func (e *TripwireError) Withheld() string { return "withheld by the guard " + e.Guard }

// Unwrap returns the guard's own error.
func (e *TripwireError) Unwrap() error { return e.Err }

// GuardedBy adds guards to the edge to an agent. They run after the agent's own guards. It works for any agent,
// including remote ones.
func GuardedBy(guards ...Guard) EdgeOption {
	return edgeOptionFunc(func(e *Edge) { e.Guards = append(e.Guards[:len(e.Guards):len(e.Guards)], guards...) })
}

// Guards returns the guards of an agent at its place in the tree: its own, then those of the edge that leads to it.
// The slice is shared and must not be changed.
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
