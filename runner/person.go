package runner

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/session"
)

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
	begin := func(t *opening) error {
		f, person := &t.cached.fold, r.tree.Node(agent.Human)
		said, err := r.person.Hear(ctx, agent.NewInvocation(agent.InvocationParams{Node: person, Tree: r.tree, Session: &t.turnSession, TurnID: f.Turn.ID,
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
		events := append(t.closer().closing(interrupted), start)
		for _, d := range append(said, &event.HarnessEnd{AgentID: agent.Human, FinishReason: event.FinishReasonStop}) {
			e := *start
			e.ParentID, e.Data = "", d
			events = append(events, &e)
		}
		return t.append(ctx, events)
	}
	_, err := r.collect(ctx, key, nil, begin, func(*scope) error { return nil })
	return err
}
