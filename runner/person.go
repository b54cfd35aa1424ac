package runner

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/session"
)

var errNoDesk = fmt.Errorf("the runner has no desk where a person could answer: give it one with runner.WithDesk: %w", agent.ErrBadInput)

// WithDesk lets conversations go to a person at a desk: by a router, by the user's wish, by an
// agent of the tree whose transfer policy allows it. The tree gets a node named
// [agent.Human], which is nobody's child. What the person says comes by [Runner.Deliver].
func WithDesk(desk human.Desk, opts ...human.Option) Option {
	return func(r *Runner) { r.person = human.NewAgent(desk, opts...) }
}

// Deliver takes in what a desk says: the words of a person, or how a handoff stands. It is
// stored in one write, in the session's last turn, and whoever follows the session sees it.
// Words for the desk that did not reach it before are sent to it on the way.
//
// An event that was delivered before changes nothing and is no error. Else the error is
// human.ErrGone if its handoff is not under way in the session, a *human.TransitionError if
// its status cannot follow, agent.ErrSessionBusy while a turn runs, after the time that
// [WithWait] gives: deliver it again; agent.ErrBadInput if it says nothing or the runner has no
// desk; or the store's. Nothing is stored then.
func (r *Runner) Deliver(ctx context.Context, key session.Key, word human.Event) error {
	if r.person == nil {
		return errNoDesk
	}
	if err := session.CheckKey(key); err != nil {
		return err
	}
	if err := word.Validate(); err != nil {
		return fmt.Errorf("%w: %w", err, agent.ErrBadInput)
	}
	begin := func(t *turn) error {
		f, person := &t.w.fold, r.tree.Node(agent.Human)
		said, err := r.person.Hear(ctx, agent.NewInvocation(agent.InvocationParams{Node: person, Tree: r.tree, Session: t, TurnID: f.Turn.ID,
			NewID: t.newID, Logger: r.logger}), word)
		if len(said) == 0 || err != nil {
			return err
		}
		if err := t.branch(); err != nil {
			return err
		}
		cause := f.Scope("").LastEnd
		if open := f.Scope("").Run; open.Open {
			cause = open.ID
		}
		start := t.start(person, f.Turn.ID, endNode(cause), "", nil)
		events := append(t.closing(interrupted), start)
		for _, d := range append(said, &event.HarnessEnd{AgentID: agent.Human, FinishReason: event.FinishReasonStop}) {
			e := *start
			e.ParentID, e.Data = "", d
			events = append(events, &e)
		}
		return t.append(ctx, events)
	}
	_, err := r.collect(ctx, key, nil, begin, func(*lane) error { return nil })
	return err
}

// callPerson adds to the events that begin a turn the transfer to a person, in the place of
// the answer of the agent that they start.
func (t *turn) callPerson(events []*event.Event, reason string) ([]*event.Event, error) {
	start := events[len(events)-1]
	if t.r.person == nil {
		return nil, errNoDesk
	}
	if start.Agent == agent.Human {
		return events, nil
	}
	said, ended := *start, *start
	said.ParentID, ended.ParentID = "", ""
	said.Data = &event.Transfer{From: start.Agent, To: agent.Human, Reason: reason, Outcome: event.TransferCommitted, TransferType: event.TransferTypeBotToHuman}
	ended.Data = &event.HarnessEnd{AgentID: start.Agent, FinishReason: event.FinishReasonTransfer, Target: agent.Human}
	return append(events, &said, &ended, t.start(t.r.tree.Node(agent.Human), start.TurnID, endNode(start.RunID), "", nil)), nil
}
