// Package responses converts the events of turns to responses of OpenAI's Responses API, and to the events of their
// streams. From the sequence number of the last event that a client received, every process can compute what the client
// has not received yet. The package never starts or ends a turn.
package responses

import (
	"context"
	"errors"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Read applies all stored events of the response. The error is live.ErrNoTurn if the response does not exist.
func (r *Response) Read(ctx context.Context, turns *live.Turns, key session.Key) error {
	rep, err := turns.Report(ctx, key, r.ID.Turn)
	if err != nil {
		return err
	}
	r.First = rep.First
	err = each(ctx, turns, key, rep.ID, rep.First, func(e *event.Event, rep *live.Report) error { return r.Apply(session.Entry{Event: e}, rep) })
	switch {
	case errors.Is(err, ErrOver):
		r.Over = true
	case err != nil:
		return err
	case r.Began.IsZero():
		return live.ErrNoTurn
	case r.State == live.Running:
		r.State = rep.State // the turn may be interrupted
	}
	return nil
}

// PartStart returns the position at which the part of a turn starts that answers a request whose first event is at
// after or later: that of the first decision through this API from there on, or else of the last one before. 0 is the
// start of the turn.
func PartStart(ctx context.Context, turns *live.Turns, key session.Key, turn string, first, after int64) (seq int64, err error) {
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

// each calls take for the stored events of a turn, each with the report of the events up to it.
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
