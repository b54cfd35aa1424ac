package runner

import (
	"context"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// State returns how the last turn of a session stands. It reads no more of the log than [Runner.Glance].
func (r *Runner) State(ctx context.Context, key session.Key) (s TurnState, err error) {
	if err := session.CheckKey(key); err != nil {
		return s, err
	}
	err = r.Glance(ctx, key, func(f *session.Fold) error {
		s = turnStateOf(f)
		return nil
	})
	return s, err
}

// Begin stores the user's message and starts the active agent, but takes no
// step: an engine that makes turns durable continues with [Runner.Advance]. It
// returns what it stored, nothing for a turn that was begun before; see [WithTurnID]. Errors are those of Run before
// anything was stored.
func (r *Runner) Begin(ctx context.Context, key session.Key, msg llm.Message, opts ...TurnOption) ([]*event.Event, TurnState, error) {
	o, err := turnOptionsOf(key, msg, opts)
	if err != nil {
		return nil, TurnState{}, notBegun{err}
	}
	o.stays = true
	return r.runPart(ctx, part{key, &msg, func(t *opening) error { return t.beginTurn(msg, o) }, noSteps})
}

// Decide stores decisions as Resume does, but takes no step. Decisions that were made before are not stored again; what
// their calls gave is returned then, if they have run. Without decisions it resumes, as Resume does, a turn that waits for something
// done elsewhere and a fork of a turn that waits for approvals. It leaves all others as they are.
func (r *Runner) Decide(ctx context.Context, key session.Key, decisions ...Decision) ([]*event.Event, TurnState, error) {
	begin := func(t *opening) error {
		switch {
		case len(decisions) > 0 || len(t.denyShared()) > 0:
			return t.resumeTurn(decisions)
		case t.fold().Waits():
			return t.lookAgain()
		}
		return nil
	}
	return r.runPart(ctx, part{key, nil, begin, noSteps})
}

// Step is one step of a turn, for [Runner.Advance]. The zero value is the next one of the last turn, tried for the first time.
type Step struct {
	// Turn is the id of the turn that the step is of; "" is the session's last one.
	Turn string
	// Seq is where the log ended before the step was first tried, from the [TurnState] of the step before;
	// 0 is not known. With it a try is known that did the step without anybody hearing of it.
	Seq int64
	// Attempt counts the tries of this step, from 1; 0 is 1. From the second on, and if a call was pending when
	// another process took the turn over, a tool whose outcome is unknown is run again only if it is idempotent.
	Attempt int
	// Last reports that the caller does not retry the step. Then an error ends the run that [WithOuterRetries] would
	// leave open.
	Last bool
}

// Advance does exactly one step of the session's turn: one model answer, with the transfer
// that it asks for if that needs no approval and no time, or one batch of tools with the
// transfer that ends it. It returns what the step stored
// and how the turn stands then; Run and Resume are loops of such steps. On a
// session whose turn is over it does nothing, and neither if an earlier try has done the step.
//
// The error is [ErrTurnOver] if the session has gone on with another turn.
func (r *Runner) Advance(ctx context.Context, key session.Key, s Step) (events []*event.Event, state TurnState, err error) {
	done := false
	begin := func(t *opening) error {
		t.last = s.Last
		f := t.fold()
		switch {
		case s.Turn != "" && f.Turn.ID != s.Turn:
			return ErrTurnOver
		case s.Seq > f.Seq:
			return fmt.Errorf("session %s: the log ends at %d, before the step's position %d: %w", key, f.Seq, s.Seq, agent.ErrConflict)
		case s.Seq >= f.Turn.First && s.Seq > 0 && s.Seq < f.Seq && t.didStep(s.Seq):
			done = true
			return nil
		case s.Attempt > 1, s.Seq > 0 && s.Seq < f.Seq, t.adoptedMeanwhile(): // another try has begun it
			return t.resumeTurn(nil)
		case t.branches(): // what the other session's run was about to do, it may have done
			return t.resumeTurn(nil)
		}
		return t.appendEvents(t.ctx, t.resumedNotices()) // between two steps nothing runs
	}
	return r.runPart(ctx, part{key, nil, begin, func(s *scope) (err error) {
		if !done {
			_, err = s.step()
		}
		return err
	}})
}

// Cancel ends the session's last turn if it was cut off or waits for something: it cannot
// be resumed after that. Calls without a result are answered, open questions
// are withdrawn, and the runs end as canceled. An agent.Canceler cancels what it has
// waiting elsewhere. That is done for the agent that answered last, and for each that has
// a task at a remote agent which is not over by the log, also inside of tools and of
// graphs. All of it is one write, whose events are returned. A turn that is over is left
// as it is, unless its agent has something waiting elsewhere. A turn that runs is not
// stopped: the error is agent.ErrSessionBusy. Cancel the context of that turn first.
// Of the options, [At] makes sure that it is the turn that was meant.
func (r *Runner) Cancel(ctx context.Context, key session.Key, opts ...TurnOption) ([]*event.Event, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	begin := func(t *opening) error {
		if err := t.expectAt(o); err != nil {
			return err
		}
		return t.cancelTurn()
	}
	return r.collectEvents(ctx, part{key, nil, begin, noSteps})
}

// TakeOver is Resume for a session whose holder has gone, which session.Store finds by Orphans. A notice
// in the log says so. A turn that was taken over three times in a row, and got no further, is left
// alone, which is noted once: the error is [ErrLeft] then. A turn that waits for something keeps waiting.
func (r *Runner) TakeOver(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		left := false
		begin := func(t *opening) (err error) {
			left, err = t.adoptTurn()
			t.failed = err
			return err
		}
		r.interceptTurn(ctx, part{key, nil, begin, func(s *scope) error {
			if left {
				return ErrLeft
			}
			return s.runSteps()
		}}, yield)
	}
}

// Deliver takes in what a desk says: the words of a person, or how a handoff stands. It is
// stored in one write, in the session's last turn, and followers of the session see it.
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
	if err := word.Validate(); err != nil {
		return fmt.Errorf("%w: %w", err, agent.ErrBadInput)
	}
	begin := func(t *opening) error { return t.deliverWord(ctx, word) }
	_, err := r.collectEvents(ctx, part{key, nil, begin, noSteps})
	return err
}

// runPart runs a part of a turn, and returns what it stored and how the turn stands then.
func (r *Runner) runPart(ctx context.Context, p part) (events []*event.Event, state TurnState, err error) {
	begun, begin := false, p.begin
	p.begin = func(t *opening) error {
		t.tells = &state
		err := begin(t)
		begun = err == nil
		return err
	}
	events, err = r.collectEvents(ctx, p)
	if err != nil && !begun {
		err = notBegun{err}
	}
	return events, state, err
}
