package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Child is an agent that a workflow runs in a scope of its own, by way of a [Group].
// It belongs to the group until its run has ended.
type Child struct {
	// Tree is the agent with all below it. Its root may be [Named], so that events
	// carry the name that the agent has in the workflow.
	Tree *agent.Tree
	// Ref is what the run's events give as agentId; "" is the root's name.
	Ref string
	// Key tells the scope from the others of the workflow's run: see [event.ChildScope].
	Key string
	// Order is the child's place among those whose events count as
	// simultaneous.
	Order int
	// Cause is the parent id of the scope's first run: the harness_start of the
	// workflow's run, or the harness_end of the run before.
	Cause string
	// Input is what the child gets: any JSON value.
	Input json.RawMessage
	// Resume continues the scope's open run, which was cut off, instead of opening the
	// scope.
	Resume bool
	// Scope is the scope to continue in; "" is the one that Key names. It is another one
	// if a run continues the work of one before it.
	Scope string
	// Timeout bounds the run; 0 is no bound besides those of the turn.
	Timeout time.Duration
	// Data is the workflow's own.
	Data any
}

// Result is how the run of a child ended.
type Result struct {
	Child *Child
	RunID string
	// Reason is how: FinishReasonStop, or why there is no output.
	Reason event.FinishReason
	// Output is what the child's run gave: that of its [event.Finish], else the last words
	// of the agent that answered, as a JSON text. It is nil for any other reason.
	Output json.RawMessage
	// Err is the error of a run that failed; Code and Message are those of its error
	// event in the log.
	Err           error
	Code, Message string
}

// Settle is the time within which the children of a workflow count as equally quick,
// unless it says otherwise. Tools of one answer have half of it.
const Settle = time.Millisecond

// Runtime is a runner that runs workflows.
type Runtime interface {
	// Group makes what a workflow runs its children by: see [NewGroup].
	Group(ctx context.Context, inv *agent.Invocation, settle time.Duration) Group
}

// NewGroup returns what the workflow runs its children by. Settle is the time within
// which what several children do counts as simultaneous. The error says that whoever runs
// the agent runs no workflows.
func NewGroup(ctx context.Context, inv *agent.Invocation, settle time.Duration) (Group, error) {
	r, ok := inv.Runtime().(Runtime)
	if !ok {
		return nil, fmt.Errorf("agent %s is a workflow, and what runs it (%T) runs none", inv.Agent().Name(), inv.Runtime())
	}
	return r.Group(ctx, inv, settle), nil
}

// Group runs children of a workflow side by side. It is for the goroutine of the
// workflow's step only, which yields nothing while it is in use.
//
// What children store, and how they end, is processed in an order that does not
// depend on small differences in speed: what arrives within the group's settle
// time counts as simultaneous and is taken in the order of [Child.Order]. Ends are
// stored with the next starts, in one write.
type Group interface {
	// Start stores that the children begin, in the order given and in one write, then
	// begins to run all of them.
	Start(children ...*Child) error
	// Next waits until children have ended and returns them; the slice is valid until
	// the next call. It returns none when the time given is over, 0 for no bound, or
	// when none runs. An error is not that of a child: it means that the turn cannot
	// continue.
	Next(wait time.Duration) ([]Result, error)
	// Add stores events of the workflow's own run with the next write.
	Add(events ...*event.Event)
	// Stop cancels the children that run, waits for them, and returns them in the order
	// in which they began. Their runs are recorded as canceled. Others may begin then.
	Stop() []*Child
	// Close ends the group and must be called. What is not stored yet is stored with
	// the workflow's next write. Children that still run are cancelled and waited
	// for, but not recorded.
	Close()
}
