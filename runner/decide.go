package runner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Decision answers a question: whether a call may run, or what a call asks for. Digest, RelayID and ID are optional.
type Decision struct {
	CallID   string
	Approved bool
	// Content is the answer to a call's question: the JSON form of a value that the question's schema allows, or of a
	// text if it has no schema. It is nil for a permission.
	Content json.RawMessage
	// Reason is for the model, in the result of a call that is denied.
	Reason string
	// By is the person who decided, and Rights are the rights that allowed it. The log has both.
	// A runner does not check them; package live checks whether the caller may decide.
	By     string
	Rights []string
	// Digest is the digest of the question that the person saw, or "". If the open question has another digest, the
	// decision is refused.
	Digest string
	// RelayID is the id of the question's event, or "". If the open question has another id, the decision is refused,
	// also if the call asks the same again.
	RelayID string
	// State changes the session's state in the write that stores the decision, as [WithState] does when a turn begins.
	State map[string]any
	// ID becomes the id of the decision's event, so that the caller can find out whether the
	// decision was stored. It is printable ASCII of at most 64 bytes and unique in the session.
	// Defaults to a new id.
	ID string
}

// Approve allows a call that waits for an approval.
func Approve(callID string) Decision { return Decision{CallID: callID, Approved: true} }

// Answer answers the question of a call with any value that has a JSON form.
func Answer(callID string, content any) Decision {
	return Decision{CallID: callID, Approved: true, Content: event.EncodeJSON(content)}
}

// Deny refuses a call that waits for an approval, or declines to answer one.
func Deny(callID, reason string) Decision { return Decision{CallID: callID, Reason: reason} }

// Equals reports whether a stored decision about the same call says the same, whoever decided.
func (d Decision) Equals(stored *event.RelayResolved) bool {
	return stored.Approved == d.Approved && (stored.Reason == d.Reason || stored.Reason == inFork(d.Reason)) &&
		(!d.Approved || string(event.CompactJSON(stored.Content)) == string(event.CompactJSON(d.Content)))
}

// storeDecisions stores the decisions, each in the scope of its call, and opens a run of the
// conversation that resumes the paused one, in one write. The agent that opened an inner scope
// resumes the scope. Repeated decisions only deliver the recorded results. In a fork, what the other session asks is
// denied and cannot be approved.
func (t *opening) storeDecisions(decisions []Decision) error {
	f := t.fold()
	run, held := &f.Scope("").Run, f.Held()
	decisions, err := t.withDenials(decisions)
	if err != nil {
		return err
	}
	events, settled, err := t.decisionEvents(decisions)
	if err != nil {
		return err
	}
	if len(settled) > 0 {
		if err := t.recallResults(settled); err != nil {
			return err
		}
	}
	if !held || len(events) == 0 {
		if held && !t.branches() || len(decisions) == len(settled) && !f.Unfinished() {
			return nil
		}
		// The run that another decision opened was cut off; this one continues it.
		if f.Unfinished() && !t.branches() { // in one write: a request to stop could end the turn after the first one
			return t.continueTurn(events...)
		}
		if err := t.branchOff(events...); err != nil {
			return err
		}
		return t.resumeTurn(nil)
	}
	n := t.r.tree.Node(run.Agent)
	if n == nil { // and no agent is left to resume the inner scopes
		events = slices.DeleteFunc(events, func(e *event.Event) bool { return e.Scope != "" })
	}
	if t.branches() {
		if err := t.branchOff(events...); err != nil || n != nil {
			return err
		}
		events = nil
	}
	if n == nil {
		n = t.r.tree.Root()
		events = append(events, t.closer().withdraw(run)...)
	}
	return t.appendEvents(t.ctx, append(events, t.startEvent(n, run.TurnID, endNode(run.ID), "", nil)))
}

// decisionEvents returns the events of decisions, and the decisions about calls that are no longer open.
func (t *opening) decisionEvents(decisions []Decision) (events []*event.Event, settled []Decision, err error) {
	f := t.fold()
	took := make(map[string]string) // scopes to the runs that take them up, in a fork
	for _, d := range decisions {
		c, scope := f.Call(d.CallID)
		switch {
		case d.ID != "" && !usableID(d.ID):
			return nil, nil, fmt.Errorf("the decision about call %q has an id that no event can have: %w", d.CallID, agent.ErrBadInput)
		case c == nil || !c.Open(): // a decided call may not have run yet, and the log continues there
			settled = append(settled, d)
		case slices.ContainsFunc(events, func(e *event.Event) bool { r, ok := e.Data.(*event.RelayResolved); return ok && r.RelayID == c.Relay }):
			return nil, nil, fmt.Errorf("call %q is decided twice: %w", d.CallID, agent.ErrBadInput)
		default:
			err := d.answers(c.Asks, c.Relay)
			if err == nil && d.Approved {
				err = t.checkRunnable(c, scope)
			}
			if err != nil {
				return nil, nil, err
			}
			of := &f.Scope(scope).Run
			by := of.ID
			if scope != "" && ofOtherSession(t.lease, of) {
				if took[scope] == "" {
					events = append(events, t.resumeRun(scope)...)
					took[scope] = events[len(events)-1].RunID
				}
				by = took[scope]
			}
			e := eventOf(of, scope, &event.RelayResolved{RelayID: c.Relay, Approved: d.Approved, Reason: d.Reason, By: d.By, Content: d.Content,
				Rights: d.Rights, Digest: c.Asks.Digest})
			e.ID, e.RunID = d.ID, by
			events = append(events, e)
			if len(d.State) > 0 {
				events = append(events, siblingEvent(e, &event.State{Delta: d.State}))
			}
		}
	}
	return events, settled, nil
}

// withDenials adds denials for the calls of the parent session. If there is a decision for such a call, it must be a
// denial.
func (t *opening) withDenials(decisions []Decision) ([]Decision, error) {
	denials := t.denyShared()
	decisions = slices.Clone(decisions)
	for i := range decisions {
		d, n := &decisions[i], len(denials)
		denials = slices.DeleteFunc(denials, func(s Decision) bool { return s.CallID == d.CallID })
		switch {
		case len(denials) == n:
		case d.Approved:
			return nil, fmt.Errorf("call %q waits in the session that this one was forked from, and is decided there: %w", d.CallID, ErrNoApproval)
		default:
			d.Reason = inFork(d.Reason)
		}
	}
	return slices.Concat(decisions, denials), nil
}

// inFork adds to the reason of a denial that the call belongs to the session that this one was forked from.
func inFork(reason string) string { return strings.TrimPrefix(reason+"; "+agent.NotInFork, "; ") }

// denyShared returns denials of the calls that wait for a permission in the session that this one was forked
// from. Such a call is approved once and runs once, however many forks there are.
func (t *opening) denyShared() (all []Decision) {
	for _, q := range t.fold().SharedQuestions(t.lease.Shared) {
		all = append(all, Deny(q.ToolCallID, agent.NotInFork))
	}
	return all
}

// checkRunnable returns agent.ErrBadInput if the tree lacks what an approved call needs: the decision would be used up,
// and the call would not run.
func (t *opening) checkRunnable(c *session.Call, scope string) error {
	missing := lacking(t.r.tree, t.fold(), c, scope)
	if missing == "" {
		return nil
	}
	return fmt.Errorf("call %q cannot run here, because the tree lacks %s: decide at a server that has it, or deny the call: %w", c.ID, missing, agent.ErrBadInput)
}

// CanResume reports whether a tree has what the session's last turn needs to continue: its agent, and the tools of the
// calls that were decided and have no result yet. Without its tool such a call would fail, and the decision would be
// lost.
func CanResume(tree *agent.Tree, f *session.Fold) bool {
	last := &f.Scope("").Run
	next := last.Agent
	if !last.Open {
		next = last.Target
	}
	if next == "" || last.TurnID != f.Turn.ID {
		return true
	}
	for _, scope := range append(f.Scopes.Names(), "") {
		for i := range f.Scope(scope).Run.Pending {
			if c := &f.Scope(scope).Run.Pending[i]; c.Resolved && lacking(tree, f, c, scope) != "" {
				return false
			}
		}
	}
	return tree.Node(next) != nil
}

// lacking returns what a tree certainly lacks to run a call: the conversation's agent, the tool that the call means, or
// a tool that runs the scope of the call. It returns "" if the tree may have all of them.
func lacking(tree *agent.Tree, f *session.Fold, c *session.Call, scope string) string {
	if name := f.Scope("").Run.Agent; tree.Node(name) == nil {
		return fmt.Sprintf("the agent %q", name)
	}
	way := f.WayTo(scope)
	if scope != "" && len(way) == 0 {
		return ""
	}
	for i, step := range append(slices.Clip(way), session.Hosted{Agent: f.Scope(scope).Run.Agent, Tool: c.Name}) {
		if step.Tool == "" || step.Tool == agent.TransferTool {
			continue
		}
		agents := agentsAt(tree, way[:i], step.Agent)
		with := slices.ContainsFunc(agents, func(a agentInTree) bool { return !lacksTool(f, a.node, step.Tool) })
		if len(agents) > 0 && !with {
			return fmt.Sprintf("the tool %q of the agent %q", step.Tool, step.Agent)
		}
	}
	return ""
}

// lacksTool reports whether an agent certainly has no tool with this name. A set or the client may have it.
func lacksTool(f *session.Fold, n *agent.Node, name string) bool {
	a, ok := agent.As[interface {
		Tools() []tools.Tool
		Toolsets() []tools.Set
	}](n.Agent)
	if !ok || len(a.Toolsets()) > 0 || slices.ContainsFunc(a.Tools(), func(o tools.Tool) bool { return o.Info().Name == name }) {
		return false
	}
	if f.Turn.User == nil {
		return true
	}
	sent, err := tools.ClientToolsIn(f.Turn.User.Metadata)
	return err == nil && sent == nil
}

// answers checks that a decision answers the question, and converts it to the form in which it is stored.
func (d *Decision) answers(asked *event.Relay, id string) error {
	wrong := func(why string) error {
		return fmt.Errorf("the decision about call %q: %s: %w", d.CallID, why, agent.ErrBadInput)
	}
	switch input := asked.Kind == event.RelayInput; {
	case d.Digest != "" && d.Digest != asked.Digest, d.RelayID != "" && d.RelayID != id:
		return fmt.Errorf("the decision about call %q is about another question than the one that is asked: %w", d.CallID, ErrNoApproval)
	case !d.Approved || !input && d.Content == nil:
		d.Content = nil
		return nil
	case !input:
		return wrong("it is asked whether the call may run, and takes no answer besides: use Approve or Deny")
	case d.Content == nil:
		return wrong("the call asks for an answer: use Answer, or Deny to decline")
	case event.TooDeep(d.Content) || !json.Valid(d.Content):
		return wrong("the answer is not JSON, or nested too deeply")
	}
	d.Content = event.CompactJSON(d.Content)
	form := asked.Schema
	if len(form) == 0 {
		form = json.RawMessage(`{"type":"string"}`)
	}
	if err := schema.Fits(form, d.Content); err != nil {
		return wrong("the answer does not fit: " + err.Error())
	}
	return nil
}

// recallResults queues the recorded results of calls that were decided before, so that a repeated decision returns the
// result of the first. Another decision is refused: its caller must not believe that it was stored.
func (t *opening) recallResults(decisions []Decision) error {
	calls := make(map[string]string) // the calls of the questions
	stored, results := make(map[string]*event.Event), make(map[string]*event.Event)
	for e, err := range t.r.store.Load(t.ctx, t.key, 0) {
		if err != nil {
			return err
		}
		switch d := e.Data.(type) {
		case *event.Relay:
			calls[e.ID] = d.ToolCallID
			delete(stored, d.ToolCallID) // it asks again
		case *event.RelayResolved:
			stored[calls[d.RelayID]] = e
		case *event.ToolResult:
			results[e.ID] = e
		}
	}
	for _, d := range decisions {
		e := stored[d.CallID]
		if e == nil {
			return fmt.Errorf("call %q of session %s: %w", d.CallID, t.key, ErrNoApproval)
		}
		if first := e.Data.(*event.RelayResolved); !d.Equals(first) || e.ID != d.ID && first.By != d.By {
			return fmt.Errorf("call %q of session %s was decided before, by another decision: %w", d.CallID, t.key, ErrNoApproval)
		}
		if results[d.CallID] != nil {
			t.recalled = append(t.recalled, results[d.CallID])
		}
	}
	return nil
}
