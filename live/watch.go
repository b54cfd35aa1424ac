package live

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// ErrStopped is the end of a turn that was stopped, for those who watch it. It is an
// agent.ErrSuspended: the turn can be resumed.
var ErrStopped = fmt.Errorf("the turn was stopped: %w", agent.ErrSuspended)

// Watch yields the entries of one turn after a given one, until the turn is over or waits. The position of
// the message that started the turn names it. "" is the turn's beginning. The sequence ends without an
// error, and is empty if there is nothing more to see; otherwise the last error is that of [Turns.Follow],
// or [ErrStopped].
func (t *Turns) Watch(ctx context.Context, key session.Key, first int64, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		from, err := session.ParsePosition(after)
		if err != nil {
			yield(session.Entry{}, err)
			return
		}
		if from.Seq < first {
			from = session.Position{Seq: first - 1}
		}
		following, cancel := context.WithCancelCause(ctx)
		defer t.watching(key, cancel, true)()
		// What is stored now says where the turn stands; those who follow it may be behind.
		var seen, now Report
		last, err := t.report(ctx, key, first, func(e *event.Event) {
			if now.Apply(e); e.Seq <= from.Seq {
				seen.Apply(e)
			}
		})
		rests := func() bool { return seen.Seq >= now.Seq && (!last || seen.State != Running) }
		switch {
		case err == nil && now.ID == "":
			err = ErrNoTurn
		case err == nil && from.Seq >= now.Seq && (!last || now.State != Running):
			return
		}
		if err != nil {
			yield(session.Entry{}, err)
			return
		}
		for entry, err := range t.Follow(following, key, from.String()) {
			switch {
			case errors.Is(err, ErrStopped):
				yieldRest(t.store.Load(ctx, key, from.Seq), &seen, now.ID, yield)
				return
			case err == nil && entry.Event.TurnID != now.ID && entry.Event.TurnID != "": // "" is of no turn
				return
			case !yield(entry, err) || err != nil:
				return
			}
			if seen.Apply(entry.Event); !entry.Event.Partial {
				from.Seq = entry.Event.Seq
				if rests() {
					return
				}
			}
		}
	}
}

// yieldRest yields the events of a turn that was stopped, and that it was stopped unless it has come to rest.
func yieldRest(events iter.Seq2[*event.Event, error], seen *Report, turn string, yield func(session.Entry, error) bool) {
	for e, err := range events {
		switch {
		case err != nil:
			yield(session.Entry{}, err)
			return
		case e.TurnID != turn:
			return
		case !yield(session.Entry{ID: session.Position{Seq: e.Seq}.String(), Event: e}, nil):
			return
		}
		seen.Apply(e)
	}
	if seen.State == Running {
		yield(session.Entry{}, ErrStopped)
	}
}
