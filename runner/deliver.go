package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/session"
)

var errNoDesk = fmt.Errorf("the runner has no desk where a person could answer: give it one with runner.WithDesk: %w", agent.ErrBadInput)

// Deliver takes in what a desk says: the words of a person, or how a handoff stands. It is
// stored in the session's current turn, and whoever follows the session sees it. Words for
// the desk that did not reach it before are sent to it on the way.
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
		known, err := r.person.Knows(ctx, t, word)
		if known || err != nil {
			return err
		}
		if err := t.branch(); err != nil {
			return err
		}
		if t.word, err = json.Marshal(word); err != nil {
			return err
		}
		events := t.closing(interrupted)
		cause := t.w.fold.Scope("").LastEnd
		if open := t.w.fold.Scope("").Run; open.Open {
			cause = open.ID
		}
		return t.append(ctx, append(events, t.start(r.tree.Node(agent.Human), t.w.fold.Turn.ID, endNode(cause), "", nil)))
	}
	_, err := r.collect(ctx, key, nil, begin, func(l *lane) error {
		if l.t.word == nil {
			return nil
		}
		return l.run()
	})
	return err
}
