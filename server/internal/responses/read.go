// Package responses makes responses of OpenAI's protocol of the events of turns: what they are, and what a client that
// reads along is sent of them, with numbers by which any process finds out what the client has yet to be sent. It
// imports event, live, runner, session, chats and front, and never begins or ends a turn.
package responses

import (
	"context"
	"errors"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/session"
)

// Read takes in what is stored of a response. The error is live.ErrNoTurn if there is none.
func (r *Response) Read(ctx context.Context, turns *live.Turns, key session.Key) error {
	rep, err := turns.Report(ctx, key, r.ID.Turn)
	if err != nil {
		return err
	}
	r.First = rep.First
	err = each(ctx, turns, key, rep.ID, rep.First, func(e *event.Event, rep *live.Report) error { return r.Take(session.Entry{Event: e}, rep) })
	switch {
	case errors.Is(err, ErrOver):
		r.Over = true
	case err != nil:
		return err
	case r.Began.IsZero():
		return live.ErrNoTurn
	case r.State == live.Running:
		r.State = rep.State // perhaps nobody works on it
	}
	return nil
}

// Begin returns where the part of a turn begins that answers a client: with the first decision that was given at this
// door from a position on, or else with what came before. 0 is the turn's beginning, with its first words.
func Begin(ctx context.Context, turns *live.Turns, key session.Key, turn string, first, after int64) (seq int64, err error) {
	if after == first {
		return 0, nil
	}
	var r Response
	err = each(ctx, turns, key, turn, first, func(e *event.Event, rep *live.Report) error {
		if r.begins(e, rep) && e.Seq > first && seq < after {
			seq = e.Seq
		}
		return nil
	})
	return seq, err
}

// each gives the stored events of a turn to take, each when the report knows of it.
func each(ctx context.Context, turns *live.Turns, key session.Key, turn string, first int64, take func(*event.Event, *live.Report) error) error {
	var rep live.Report
	for e, err := range turns.Store().Load(ctx, key, first-1) {
		if err != nil {
			return err
		}
		if e.TurnID != turn {
			break
		}
		rep.Apply(e)
		if err := take(e, &rep); err != nil {
			return err
		}
	}
	return nil
}
