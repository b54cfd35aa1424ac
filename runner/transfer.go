package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// transfers checks and creates the transfers of a scope's active agent.
type transfers struct {
	tree   *agent.Tree
	draft  *draft
	meter  *meter
	guards *guards
	ready  string // the target that reported in this step that it is ready, "" without one
}

// findNode calls [agent.Tree.Find], and logs an error.
func (t *transfers) findNode(name string) (*agent.Node, error) {
	n, err := t.tree.Find(name)
	if wrong, ok := err.(*agent.FindError); ok {
		t.draft.session.r.logger.Error("FindAgent contradicts the tree", "error", err, "panic", wrong.Panic)
	}
	return n, err
}

// checkReady returns an error if the target is not ready to start. Otherwise it remembers the target, which must not be
// asked again between the result that the model reads and the commit.
func (t *transfers) checkReady(ctx context.Context, to *agent.Node) error {
	name := to.Agent.Name()
	_, err := t.findNode(name)
	if a, ok := agent.As[agent.Readier](to.Agent); ok && err == nil {
		err = a.Ready(ctx)
	}
	if err != nil {
		t.draft.session.r.logger.Warn("the target of a transfer is not ready", "agent", name, "error", err)
		return fmt.Errorf("%w: %s: %w", agent.ErrTargetNotReady, name, err)
	}
	t.ready = name
	return nil
}

// allowedTarget returns the target of a transfer, or an error if the tree's policy or a limit forbids the transfer.
func (t *transfers) allowedTarget(inv *agent.Invocation, to string) (*agent.Node, error) {
	target, _ := t.tree.Find(to) // checkReady reports the error
	if !inv.Node().MayTransferTo(target) {
		return nil, fmt.Errorf("%s may not transfer to %q: %w", inv.Agent().Name(), to, agent.ErrUnknownTarget)
	}
	// These call no model, and every cycle has an agent that does.
	if n := inv.Node(); n.Properties.Router || n.Virtual() {
		return target, nil
	}
	return target, t.meter.withinTransfers(inv.Agent().Name(), target.Agent.Name(), t.draft.hasText())
}

// checkCommitted checks a transfer that an agent yields as committed: function agents obey the same rules as models.
func (t *transfers) checkCommitted(ctx context.Context, inv *agent.Invocation, d *event.Transfer) error {
	target, err := t.allowedTarget(inv, d.To)
	if err == nil {
		if err = inv.Node().InputFor(target).Check(d.Payload); err != nil {
			return fmt.Errorf("%w: %w", agent.ErrTransferRejected, err)
		}
	}
	// A router's decision is stored before the target is asked.
	if err == nil && t.ready != d.To && !inv.Node().Properties.Router {
		err = t.checkReady(ctx, target)
	}
	if errors.Is(err, agent.ErrUnknownTarget) {
		return fmt.Errorf("%w: %w", agent.ErrTransferRejected, err)
	}
	return err
}

// ownTransfer returns a transfer of the step's agent with its name as From and the outcome filled in. Without an
// outcome the transfer is to be committed. Other outcomes only record a failed attempt. The error is
// agent.ErrTransferRejected.
func (t *transfers) ownTransfer(d *event.Transfer) (*event.Transfer, error) {
	from, to, outcome := t.draft.inv.Agent().Name(), d.To, cmp.Or(d.Outcome, event.TransferCommitted)
	switch outcome {
	case event.TransferCommitted:
		if to == "" {
			return nil, fmt.Errorf("the agent %s yielded a transfer without a target: set To to the target's name: %w", from, agent.ErrTransferRejected)
		}
		if n, _ := t.tree.Find(to); n != nil {
			to = n.Agent.Name()
		}
	case event.TransferRejected, event.TransferConflict, event.TransferFailed:
	default:
		return nil, fmt.Errorf("the agent %s yielded a transfer with the outcome %.40q: it is %s, or none, to transfer: %w",
			from, outcome, event.TransferCommitted, agent.ErrTransferRejected)
	}
	kind := d.TransferType
	if kind == "" && to == agent.Human {
		kind = event.TransferTypeBotToHuman
	}
	routed := d.Routed() && outcome == event.TransferCommitted && !t.draft.inv.Node().Properties.Router // only routers may
	if from == d.From && to == d.To && outcome == d.Outcome && kind == d.TransferType && !routed {
		return d, nil
	}
	own := *d
	own.From, own.To, own.Outcome, own.TransferType = from, to, outcome, kind
	if routed {
		own.RouteDecision, own.GraphPath = nil, nil
	}
	return &own, nil
}

// routeTransfer returns the transfer to the target that a node's routes choose for a stopped run, nil if they choose
// none. If the target is not ready, routeTransfer returns nil and adds the failed attempt to the draft.
func (t *transfers) routeTransfer(ctx context.Context, n *agent.Node) (*event.Transfer, error) {
	to, err := n.Route(ctx, t.draft.inv, t.draft.lastText())
	if err != nil || to == nil {
		return nil, err
	}
	from := t.draft.run.Agent
	record := &event.Transfer{From: from, To: to.Agent.Name(), Outcome: event.TransferCommitted, TransferType: event.TransferTypeRoute}
	if err = t.meter.withinTransfers(from, record.To, t.draft.hasText()); err == nil {
		err = t.checkReady(ctx, to)
	}
	switch {
	case err == nil:
		return record, nil
	case errors.As(err, new(*agent.TransferLimitError)):
		return nil, err
	}
	record.Outcome = event.TransferFailed
	t.draft.addData(record, &event.Notice{Code: event.NoticeRouteFailed, Message: err.Error()})
	return nil, context.Cause(ctx)
}

// refusedTransfer returns the transfer back to the source, with a notice, if a step's error is the target's refusal of
// the conversation and the target has done nothing yet. It returns nil if the error ends the run like any other error.
// The limit of transfers does not forbid the transfer back. It counts, so that the source cannot repeat its transfer
// without end.
func (t *transfers) refusedTransfer(ctx context.Context, err error) (back *event.Transfer, notice *event.Notice) {
	var refused *agent.RefusedError
	if !errors.As(err, &refused) || ctx.Err() != nil {
		return nil, nil
	}
	run := t.draft.session.runOf(t.draft.scope) // includes what the step has stored
	from := run.Transfer
	switch {
	case refused.Agent != run.Agent:
		return nil, nil
	case from == nil, run.TakesUp, run.Answers > 0, run.Said != "", len(run.Pending) > 0:
		return nil, nil
	case from.TransferType == event.TransferTypeRefused: // both agents refuse the conversation
		return nil, nil
	case from.TransferType == event.TransferTypeRoute: // the source has answered, and would answer again
		return nil, nil
	case from.TransferType == event.TransferTypeBotToBot: // the router or the fallback chooses the next agent
		return nil, nil
	case t.tree.Node(from.From) == nil, len(t.draft.shown()) > 0:
		return nil, nil
	}
	for _, e := range t.draft.events {
		switch e.Data.(type) {
		case *event.RemoteTask, *event.Notice:
		default: // the target has done something
			return nil, nil
		}
	}
	back = &event.Transfer{From: run.Agent, To: from.From, Reason: t.guards.allowedMessage(refused.Reason), Outcome: event.TransferCommitted,
		TransferType: event.TransferTypeRefused}
	t.draft.session.r.logger.Warn("the target of a transfer refused the conversation", "agent", run.Agent, "error", refused)
	notice = &event.Notice{Code: event.NoticeTransferRefused, Message: fmt.Sprintf("%s did not accept the conversation: %s", run.Agent, t.guards.allowedMessage(refused.Error()))}
	s := t.draft.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if given := s.fold().Scope(t.draft.scope).Given; given != nil {
		back.Payload = given.Payload // the payload that the source was started with
	}
	return back, notice
}

// fallback returns the agent that agent.OnError names for errors of the node, nil if the error ends the turn. It
// returns nil without such an agent, after a cancellation, a guard's refusal, a limit or a conflict, and if the limit
// of transfers forbids the transfer.
func (t *transfers) fallback(ctx context.Context, n *agent.Node, err error) *agent.Node {
	to := n.OnError()
	if to == nil || ctx.Err() != nil || errors.As(err, new(*agent.TripwireError)) {
		return nil
	}
	for _, over := range []error{agent.ErrLimit, agent.ErrTransferLimit, agent.ErrConflict, agent.ErrUnknownPrice, agent.ErrUnknownUsage} {
		if errors.Is(err, over) {
			return nil
		}
	}
	if t.meter.withinTransfers(n.Agent.Name(), to.Agent.Name(), false) != nil {
		return nil
	}
	return to
}

// fallbackTransfer returns the route and the transfer to the fallback of an agent whose run has failed.
func (t *transfers) fallbackTransfer(n, to *agent.Node, failure *event.Failure) (*event.Route, *event.Transfer) {
	from, name, reason := t.draft.run.Agent, to.Agent.Name(), t.draft.run.Agent+" failed"
	path, kind := slices.Concat(n.GraphPath(), []string{name}), event.TransferTypeBotToBot
	if to.GraphPath() != nil {
		path = to.GraphPath()
	}
	if to.Virtual() {
		kind = event.TransferTypeBotToHuman
	}
	return &event.Route{From: from, To: name, Reason: reason, GraphPath: path, Failed: failure},
		&event.Transfer{From: from, To: name, Reason: reason, Outcome: event.TransferCommitted, TransferType: kind}
}
