package runner

import (
	"context"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Begin stores the user's message and starts the active agent, but takes no
// step: an engine that makes turns durable continues with [Runner.Advance]. It
// returns what it stored. Errors are those of Run before anything was stored.
func (r *Runner) Begin(ctx context.Context, key session.Key, msg llm.Message, opts ...TurnOption) ([]*event.Event, error) {
	o, err := turnOptionsOf(key, msg, opts)
	if err != nil {
		return nil, err
	}
	return r.collect(ctx, key, &msg, func(t *turn) error { return t.begin(msg, o) }, func(*lane) error { return nil })
}

// Advance does exactly one step of the session's turn: one model answer, with the transfer
// that it asks for if that needs nobody's leave or time, or one batch of tools with the
// transfer that ends it. It returns what the step stored
// and whether the turn is over; Run and Resume are loops of such steps. On a
// session whose turn is over it does nothing and reports true.
//
// Attempt counts the tries of this step, from 1. From the second on, a tool whose
// outcome is unknown is run again only if it is idempotent.
func (r *Runner) Advance(ctx context.Context, key session.Key, attempt int) (events []*event.Event, done bool, err error) {
	if err := session.CheckKey(key); err != nil {
		return nil, false, err
	}
	begin := func(t *turn) error {
		if attempt > 1 {
			return t.resume(nil)
		}
		if t.branches() { // what the other session's run was about to do, it may have done
			return t.resume(nil)
		}
		return t.append(t.ctx, t.takenUp()) // between two steps nothing runs
	}
	events, err = r.collect(ctx, key, nil, begin, func(l *lane) (err error) {
		if done, err = l.step(); err == nil && !done {
			done = l.over()
		}
		return err
	})
	return events, done, err
}

// collect runs a part of a turn and returns what it stored.
func (r *Runner) collect(ctx context.Context, key session.Key, msg *llm.Message, begin func(*turn) error, run func(*lane) error) (events []*event.Event, failed error) {
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

// over reports whether the scope's last run has ended, other than by a
// transfer.
func (l *lane) over() bool {
	run, _ := l.state()
	return !run.Open && run.Finish != event.FinishReasonTransfer
}
