package live

import (
	"context"
	"errors"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Watch yields the entries of one turn after a given one, until the turn has ended or waits. first is the position of
// the message that started the turn. With "" it starts at the turn's beginning. Then the sequence ends without an
// error; it is empty if there is no more entry. Otherwise it ends with an error of [Turns.Follow], [ErrNoTurn] or
// [session.ErrStopped].
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
		var seen session.Fold // of the part of the turn that the caller has
		var turn string
		var end int64 // the end of the turn as it is stored
		last, err := t.report(ctx, key, first, func(e *event.Event) {
			if turn, end = e.TurnID, e.Seq; e.Seq <= from.Seq {
				seen.Apply(e)
			}
		})
		rests := func() bool { return seen.Seq >= end && (!last || seen.Status() != session.StatusOpen) }
		switch {
		case err == nil && turn == "":
			err = ErrNoTurn
		case err == nil && rests():
			return
		}
		if err != nil {
			yield(session.Entry{}, err)
			return
		}
		for entry, err := range t.follow(following, cancel, key, from.String()) {
			switch {
			case errors.Is(err, session.ErrStopped):
				yieldRest(t.store.Load(ctx, key, from.Seq), &seen, turn, yield)
				return
			case err == nil && entry.Event.TurnID != turn && entry.Event.TurnID != "": // "": the event belongs to no turn
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

// yieldRest yields the stored events of a turn that was stopped. If the turn has neither ended nor waits, it also
// yields session.ErrStopped.
func yieldRest(events iter.Seq2[*event.Event, error], seen *session.Fold, turn string, yield func(session.Entry, error) bool) {
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
	if seen.Status() == session.StatusOpen {
		yield(session.Entry{}, session.ErrStopped)
	}
}
