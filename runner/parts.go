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

// State returns the state of the last turn of a session. It reads no more of the log than [Runner.ReadFold].
func (r *Runner) State(ctx context.Context, key session.Key) (s TurnState, err error) {
	if err := session.CheckKey(key); err != nil {
		return s, err
	}
	err = r.ReadFold(ctx, key, func(f *session.Fold) error {
		s = turnStateOf(f)
		return nil
	})
	return s, err
}

// Begin stores the user's message and starts the active agent, but does no step: an engine that makes turns durable
// continues with [Runner.Advance]. It returns the events that it stored; none for a turn that was started before, see
// [WithTurnID]. Its errors are those that [Runner.Run] returns before it has stored anything.
func (r *Runner) Begin(ctx context.Context, key session.Key, msg llm.Message, opts ...TurnOption) ([]*event.Event, TurnState, error) {
	o, err := turnOptionsOf(key, msg, opts)
	if err != nil {
		return nil, TurnState{}, notBegun{err}
	}
	o.stays = true
	return r.runPart(ctx, part{key, &msg, func(t *opening) error { return t.beginTurn(msg, o) }, noSteps})
}

// Decide stores decisions as [Runner.Resume] does, but does no step. It does not store decisions again that were made
// before; it returns the results of their calls if they have run. Without decisions, it resumes a turn that waits for
// something outside, and a fork of a turn that waits for approvals. All other turns stay as they are.
func (r *Runner) Decide(ctx context.Context, key session.Key, decisions ...Decision) ([]*event.Event, TurnState, error) {
	begin := func(t *opening) error {
		switch {
		case len(decisions) > 0 || len(t.denyShared()) > 0:
			return t.resumeTurn(decisions)
		case t.fold().Waits():
			return t.resumeWaiting()
		}
		return nil
	}
	return r.runPart(ctx, part{key, nil, begin, noSteps})
}

// Step is one step of a turn, for [Runner.Advance]. The zero value is the first attempt at the next step of the last
// turn.
type Step struct {
	// Turn is the id of the step's turn. Defaults to the last turn of the session.
	Turn string
	// Seq is the end of the log before the first attempt, from the [TurnState] of the step before. It shows whether an
	// earlier attempt did the step although its caller got no result. 0 means unknown.
	Seq int64
	// Attempt counts the attempts at this step, from 1; 0 means 1. From the second attempt on, and if a call was
	// pending when another process adopted the turn, a tool with an unknown outcome runs again only if it is
	// idempotent.
	Attempt int
	// Last reports that the caller does not retry the step. Then an error ends the run that [WithOuterRetries] would
	// leave open.
	Last bool
}

// Advance does one step of the session's turn: one answer of a model, with its transfer if that needs neither an
// approval nor time, or one batch of tools with the transfer that ends it. It returns the events that the step stored
// and the state of the turn after it. [Runner.Run] and [Runner.Resume] are loops of such steps. If the turn is over,
// or an earlier attempt did the step, Advance does nothing.
//
// The error is [ErrTurnOver] if the session has continued with another turn, and [session.ErrStopped] if the turn is
// stopped. A later step resumes a stopped turn.
func (r *Runner) Advance(ctx context.Context, key session.Key, s Step) (events []*event.Event, state TurnState, err error) {
	done, stopped := false, false
	begin := func(t *opening) error {
		t.lastAttempt = s.Last
		f := t.fold()
		switch {
		case s.Turn != "" && f.Turn.ID != s.Turn:
			return ErrTurnOver
		case s.Seq > f.Seq:
			return fmt.Errorf("session %s: the log ends at %d, before the step's position %d: %w", key, f.Seq, s.Seq, agent.ErrConflict)
		case s.Seq >= f.Turn.First && s.Seq > 0 && s.Seq < f.Seq && t.didStep(s.Seq):
			done = true
			return nil
		case f.Stopped() && s.Seq > 0 && s.Seq < f.Seq: // the caller does not know that yet
			stopped = true
			return nil
		case f.StopsAt(t.lease.Stop): // requested while no process ran the turn
			stopped = true
			return t.appendEvents(t.ctx, t.stoppedNotice())
		case s.Attempt > 1, s.Seq > 0 && s.Seq < f.Seq, t.adoptedMeanwhile(): // another attempt has begun it
			return t.resumeTurn(nil)
		case t.branches(): // the run may have continued in the session that this is a fork of
			return t.resumeTurn(nil)
		}
		return t.appendEvents(t.ctx, t.resumedNotices()) // the time between two steps does not count
	}
	events, state, err = r.runPart(ctx, part{key, nil, begin, func(s *scope) (err error) {
		switch {
		case stopped:
			err = session.ErrStopped
		case !done:
			_, err = s.step()
		}
		return err
	}})
	if err == nil && state.Stopped { // since the last write of the step
		err = session.ErrStopped
	}
	return events, state, err
}

// StoreStop stores that the session's last turn was stopped, if a write has requested that and no process has seen it;
// see [session.Write]. The error is [agent.ErrSessionBusy] while a process runs the turn.
func (r *Runner) StoreStop(ctx context.Context, key session.Key) error {
	begin := func(t *opening) error {
		if t.branches() || !t.fold().StopsAt(t.lease.Stop) {
			return nil
		}
		return t.appendEvents(t.ctx, t.stoppedNotice())
	}
	_, err := r.collectEvents(ctx, part{key, nil, begin, noSteps})
	return err
}

// Cancel ends the session's last turn if it was interrupted or waits for something. The turn cannot be resumed after
// that. Cancel answers calls without a result, withdraws open questions, and ends the runs as canceled. An
// [agent.Canceler] cancels what it waits for elsewhere: the agent that answered last, and each agent with a remote
// task that the log has not ended, in tools and graphs too. All of it is one write, whose events Cancel returns.
//
// A turn that is over stays as it is, unless its agent waits for something elsewhere. A running turn is not stopped:
// the error is [agent.ErrSessionBusy], and the caller must first cancel the context of that turn. Of the options,
// [At] makes sure that Cancel ends the turn that the caller means.
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

// Adopt adopts the turn of a session whose process died, as [session.Store] finds them with Orphans, and resumes it. A
// notice in the log says so. Adopt refuses a turn that was adopted three times after a process died, or ten times after
// a server was stopped, without any progress: a notice says so once, and the error is [ErrLeft]. Adopt refuses a turn
// that was stopped with the error [session.ErrStopped]. A turn that waits for something keeps waiting.
func (r *Runner) Adopt(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		var left error
		begin := func(t *opening) (err error) {
			left, err = t.adoptTurn()
			t.failed = err
			return err
		}
		r.interceptTurn(ctx, part{key, nil, begin, func(s *scope) error {
			if left != nil {
				return left
			}
			return s.runSteps()
		}}, yield)
	}
}

// Deliver stores an event of a desk: a message of the person, or a status of the handoff. It is one write in the
// session's last turn, and followers of the session see it. Deliver also sends the desk the messages that did not
// reach it before.
//
// An event that was delivered before changes nothing and returns no error. Otherwise the error is [human.ErrGone] if
// the session has no such handoff, a *[human.TransitionError] if the status cannot follow, [agent.ErrBadInput] if the
// event is empty or the runner has no desk, or an error of the store. While a turn runs, it is
// [agent.ErrSessionBusy], after the time of [WithWait]: deliver the event again. After an error, nothing is stored.
func (r *Runner) Deliver(ctx context.Context, key session.Key, e human.Event) error {
	if r.person == nil {
		return errNoDesk
	}
	if err := e.Validate(); err != nil {
		return fmt.Errorf("%w: %w", err, agent.ErrBadInput)
	}
	begin := func(t *opening) error { return t.deliverDeskEvent(ctx, e) }
	_, err := r.collectEvents(ctx, part{key, nil, begin, noSteps})
	return err
}

// runPart runs a part of a turn, and returns the events that it stored and the state of the turn after it.
func (r *Runner) runPart(ctx context.Context, p part) (events []*event.Event, state TurnState, err error) {
	begun, begin := false, p.begin
	p.begin = func(t *opening) error {
		t.endState = &state
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
