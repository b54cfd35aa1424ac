package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Child is an agent that a workflow runs in a scope of its own, through a [Group]. It belongs to the group until its
// run has ended.
type Child struct {
	// Tree is the agent and the agents below it. Its root may be [Named], so that events have the agent's name in the
	// workflow.
	Tree *agent.Tree
	// Ref is the agentId of the run's events.
	// Defaults to the root's name.
	Ref string
	// Key distinguishes the scope from the others of the workflow's run; see [event.ChildScope].
	Key string
	// Order is the child's position among children whose events count as simultaneous.
	Order int
	// Cause is the parent id of the scope's first run: the harness_start of the workflow's run, or the harness_end of
	// the run before.
	Cause string
	// Input is the child's input: any JSON value.
	Input json.RawMessage
	// Resume resumes the interrupted run of the scope instead of opening the scope.
	Resume bool
	// Scope is the scope to resume; "" is the one that Key names. The two differ if a run continues the work of an
	// earlier one.
	Scope string
	// Timeout limits the run; at 0 only the limits of the turn apply.
	Timeout time.Duration
	// Data is for the workflow's own use.
	Data any
}

// Result is how the run of a child ended.
type Result struct {
	Child *Child
	RunID string
	// Reason is FinishReasonStop, or why there is no output.
	Reason event.FinishReason
	// Output is the output of the child's run: that of its [event.Finish] or, without one, the last text of the agent
	// that answered, as a JSON string. It is nil for any Reason other than FinishReasonStop.
	Output json.RawMessage
	// Err is the error of a failed run. Code and Message are those of its error event in the log.
	Err           error
	Code, Message string
}

// Settle is the default time within which events of a workflow's children count as simultaneous. For the tools of one
// answer the time is half of it.
const Settle = time.Millisecond

// Runtime is a runner that runs workflows.
type Runtime interface {
	// Group returns the group in which a workflow runs its children; see [NewGroup].
	Group(ctx context.Context, inv *agent.Invocation, settle time.Duration) Group
}

// NewGroup returns the group in which a workflow runs its children. settle is the time within which events of several
// children count as simultaneous. If the runtime does not run workflows, NewGroup returns an error.
func NewGroup(ctx context.Context, inv *agent.Invocation, settle time.Duration) (Group, error) {
	r, ok := inv.Runtime().(Runtime)
	if !ok {
		return nil, fmt.Errorf("agent %s is a workflow, but its runtime (%T) does not run workflows", inv.Agent().Name(), inv.Runtime())
	}
	return r.Group(ctx, inv, settle), nil
}

// Group runs children of a workflow in parallel. Only the goroutine of the workflow's step may use it, and that step
// yields nothing while it uses the group.
//
// What children store, and how they end, is processed in an order that does not depend on small differences in speed:
// what arrives within the group's settle time counts as simultaneous, and is processed in the order of [Child.Order].
// Ends are stored with the next starts, in one write.
type Group interface {
	// Start stores the starts of the children, in the given order and in one write, then runs all of them.
	Start(children ...*Child) error
	// Next waits until children have ended and returns them. The slice is valid until the next call. Next returns no
	// children when the wait time is over (0 is no limit), or if no child is running. An error is not that of a child:
	// the turn cannot continue.
	Next(wait time.Duration) ([]Result, error)
	// Add stores events of the workflow's own run with the next write.
	Add(events ...*event.Event)
	// Stop cancels the running children, waits for them, and returns them in the order of their starts. Their runs are
	// recorded as canceled. Other children may start afterwards.
	Stop() []*Child
	// Close ends the group and must be called. Events that are not stored yet are stored with the workflow's next
	// write. Close cancels children that still run and waits for them, but does not record their ends.
	Close()
}
