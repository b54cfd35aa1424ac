package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// ErrNoApproval: nobody asked for an approval of the call, or it was withdrawn.
var ErrNoApproval = errors.New("no approval was asked for")

// Decision answers the question whether a call may run, or what a call asks.
type Decision struct {
	CallID   string
	Approved bool
	// Content answers what a call asks: the JSON form of a value that the question's
	// schema allows, or of a text if it has none. It is nil for a permission.
	Content json.RawMessage
	// Reason is for the model, in the result of a call that is denied.
	Reason string
	// By says who decided; it is kept in the log.
	By string
	// ID becomes the id of the decision's event, so that whoever decides finds out
	// whether a decision was stored. It is printable ASCII of at most 64 bytes and names
	// nothing else in the session; "" has one made.
	ID string
}

// Approve lets a call run that waits for an approval.
func Approve(callID string) Decision { return Decision{CallID: callID, Approved: true} }

// Answer gives a call what it asks for: any value that has a JSON form.
func Answer(callID string, content any) Decision {
	return Decision{CallID: callID, Approved: true, Content: event.EncodeJSON(content)}
}

// Deny refuses a call that waits for an approval, or declines to answer one.
func Deny(callID, reason string) Decision { return Decision{CallID: callID, Reason: reason} }

// decide stores the decisions and opens a run that takes up what the paused one
// waited for, in one write. Decisions that were made before only deliver the
// recorded results.
func (t *turn) decide(decisions []Decision) error {
	run := &t.w.fold.Scope("").Run
	paused := t.w.fold.Paused()
	var events []*event.Event
	var settled []string
	for _, d := range decisions {
		c := run.Call(d.CallID)
		switch {
		case d.ID != "" && !usableID(d.ID):
			return fmt.Errorf("the decision about call %q has an id that no event can have: %w", d.CallID, agent.ErrBadInput)
		case c == nil || c.Relay == "":
			settled = append(settled, d.CallID)
		case c.Resolved: // and still to be run: the log goes on from there
		case slices.ContainsFunc(events, func(e *event.Event) bool { return e.Data.(*event.RelayResolved).RelayID == c.Relay }):
			return fmt.Errorf("call %q is decided twice: %w", d.CallID, agent.ErrBadInput)
		default:
			events = append(events, &event.Event{ID: d.ID, TurnID: run.TurnID, RunID: run.ID, Agent: run.Agent, Path: run.Path,
				Data: &event.RelayResolved{RelayID: c.Relay, Approved: d.Approved, Reason: d.Reason, By: d.By}})
		}
	}
	if len(settled) > 0 {
		if err := t.recall(settled); err != nil {
			return err
		}
	}
	if !paused || len(events) == 0 {
		if len(decisions) == len(settled) && !t.w.fold.Unfinished() {
			return nil
		}
		// The run that another decision opened was cut off; this one continues it.
		if err := t.branch(events...); err != nil {
			return err
		}
		return t.resume(nil)
	}
	n := t.r.tree.Node(run.Agent)
	branches := t.branches()
	if branches {
		if err := t.branch(events...); err != nil || n != nil {
			return err
		}
		events = nil
	}
	if n == nil {
		n = t.r.tree.Root()
		events = t.closeScope(events, "", fmt.Sprintf("not executed: the agent %s is no longer in the tree", run.Agent))
	}
	if !branches {
		events = append(t.closing(interrupted), events...) // inner scopes, if any could not be closed
	}
	return t.append(t.ctx, append(events, t.start(n, run.TurnID, endNode(run.ID), "", nil)))
}

// recall queues the recorded results of calls that were decided and settled
// before, so that a second decision gets what the first one got.
func (t *turn) recall(calls []string) error {
	asked := make(map[string]bool)
	results := make(map[string]*event.Event)
	for e, err := range t.r.store.Load(t.ctx, t.w.key, 0) {
		if err != nil {
			return err
		}
		switch d := e.Data.(type) {
		case *event.Relay:
			asked[d.ToolCallID] = true
		case *event.ToolResult:
			results[e.ID] = e
		}
	}
	for _, id := range calls {
		if !asked[id] || results[id] == nil {
			return fmt.Errorf("call %q of session %s: %w", id, t.w.key, ErrNoApproval)
		}
		t.recalled = append(t.recalled, results[id])
	}
	return nil
}
