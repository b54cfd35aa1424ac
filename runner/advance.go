package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

var (
	// ErrTurnOver says that a turn is not the last one of its session any more.
	ErrTurnOver = errors.New("the turn is not the session's last one any more")

	// ErrNotBegun is what an error of Begin, Decide or Advance is besides what it says itself, if no step was
	// begun: the session was busy, say, or the store could not be reached. The next try is not one more attempt.
	ErrNotBegun = errors.New("no step was begun")
)

type notBegun struct{ error }

func (e notBegun) Is(target error) bool { return target == ErrNotBegun }

func (e notBegun) Unwrap() error { return e.error }

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
	return r.part(ctx, key, &msg, func(t *opening) error { return t.begin(msg, o) }, func(*scope) error { return nil })
}

// Decide stores decisions as Resume does, but takes no step. Decisions that were made before are not stored again; what
// their calls gave is returned then, if they have run. Without decisions it resumes, as Resume does, a turn that waits for something
// done elsewhere and a fork of a turn that waits for approvals. It leaves all others as they are.
func (r *Runner) Decide(ctx context.Context, key session.Key, decisions ...Decision) ([]*event.Event, TurnState, error) {
	if err := session.CheckKey(key); err != nil {
		return nil, TurnState{}, notBegun{err}
	}
	return r.part(ctx, key, nil, func(t *opening) error {
		switch {
		case len(decisions) > 0 || len(t.stayed()) > 0:
			return t.resume(decisions)
		case t.cached.fold.Waits():
			return t.lookAgain()
		}
		return nil
	}, func(*scope) error { return nil })
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
	// Last says that nobody tries again after this: an error that [WithOuterRetries] would leave open ends the run.
	Last bool
}

// Advance does exactly one step of the session's turn: one model answer, with the transfer
// that it asks for if that needs nobody's leave or time, or one batch of tools with the
// transfer that ends it. It returns what the step stored
// and how the turn stands then; Run and Resume are loops of such steps. On a
// session whose turn is over it does nothing, and neither if an earlier try has done the step.
//
// The error is [ErrTurnOver] if the session has gone on with another turn.
func (r *Runner) Advance(ctx context.Context, key session.Key, s Step) (events []*event.Event, state TurnState, err error) {
	if err := session.CheckKey(key); err != nil {
		return nil, state, notBegun{err}
	}
	done := false
	begin := func(t *opening) error {
		t.last = s.Last
		f := &t.cached.fold
		switch {
		case s.Turn != "" && f.Turn.ID != s.Turn:
			return ErrTurnOver
		case s.Seq > f.Seq:
			return fmt.Errorf("session %s: the log ends at %d, before the step's position %d: %w", key, f.Seq, s.Seq, agent.ErrConflict)
		case s.Seq >= f.Turn.First && s.Seq > 0 && s.Seq < f.Seq && t.did(s.Seq):
			done = true
			return nil
		case s.Attempt > 1, s.Seq > 0 && s.Seq < f.Seq, t.changedHands(): // somebody has begun it
			return t.resume(nil)
		case t.branches(): // what the other session's run was about to do, it may have done
			return t.resume(nil)
		}
		return t.append(t.ctx, t.takenUp()) // between two steps nothing runs
	}
	return r.part(ctx, key, nil, begin, func(l *scope) error {
		if done {
			return nil
		}
		_, err := l.step()
		return err
	})
}

// did reports whether the step that began at a position, which the log has passed, was done to its end: the agent stores
// calls in one step and runs them in another, and none waits that was there before the step.
func (t *opening) did(seq int64) bool {
	f := &t.cached.fold
	run := &f.Scope("").Run
	if !f.Unfinished() {
		return true
	}
	if n := t.r.tree.Node(run.Agent); n == nil || !n.Properties.Stepwise || !run.Open || len(f.Inner()) > 0 {
		return false
	}
	for _, c := range run.Pending {
		if c.Made <= seq {
			return false
		}
	}
	stored := false
	for e, err := range t.Events(t.ctx, seq) {
		if err != nil {
			return false
		}
		switch d := e.Data.(type) {
		case *event.Notice:
			switch d.Code {
			case event.NoticeTakenOver: // by somebody who may have begun the next step
				return false
			case event.NoticeUndecided: // which is all of a step whose model failed
				stored = true
			}
		case *event.Discard: // of a step that came to nothing
		default:
			stored = true
		}
	}
	return stored
}

// part runs a part of a turn, and returns what it stored and how the turn stands then.
func (r *Runner) part(ctx context.Context, key session.Key, msg *llm.Message, begin func(*opening) error, run func(*scope) error) (events []*event.Event, state TurnState, err error) {
	begun := false
	events, err = r.collect(ctx, key, msg, func(t *opening) error {
		t.tells = &state
		err := begin(t)
		begun = err == nil
		return err
	}, run)
	if err != nil && !begun {
		err = notBegun{err}
	}
	return events, state, err
}

// collect runs a part of a turn and returns what it stored.
func (r *Runner) collect(ctx context.Context, key session.Key, msg *llm.Message, begin func(*opening) error, run func(*scope) error) (events []*event.Event, failed error) {
	r.events(ctx, key, msg, begin, run, func(e *event.Event, err error) bool {
		switch {
		case err != nil:
			failed = err
		case !e.Partial:
			events = append(events, e)
		}
		return true
	})
	return events, failed
}
