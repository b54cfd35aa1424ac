package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// ErrLeft says that a turn is not taken over any more: whoever did so has died too, three times at the same place.
// Resume goes on with it.
var ErrLeft = fmt.Errorf("the turn has ended three processes at the same place: look why, and resume it: %w", agent.ErrSuspended)

// takeOvers is how often a turn is taken over without getting any further.
const takeOvers = 3

// TakeOver is Resume for a session whose holder has gone, which session.Store finds by Orphans. A notice
// in the log says so. A turn that was taken over three times in a row, and got no further, is left
// alone, which is noted too: the error is [ErrLeft] then. A turn that waits for something keeps waiting.
func (r *Runner) TakeOver(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := session.CheckKey(key); err != nil {
			yield(nil, err)
			return
		}
		r.events(ctx, key, nil, (*turn).takeOver, (*lane).run, yield)
	}
}

func (t *turn) takeOver() error {
	f := &t.w.fold
	if !f.Unfinished() {
		return nil
	}
	times, err := t.takenOver()
	switch {
	case err != nil:
		return err
	case times >= takeOvers:
		notice := t.notice(event.NoticeLeft, fmt.Sprintf("the turn was taken over %d times without getting any further: nobody goes on with it before it is resumed", times))
		return errors.Join(ErrLeft, t.append(t.ctx, notice))
	}
	if err := t.append(t.ctx, t.notice(event.NoticeTakenOver, "the process that ran the turn has gone, and another one goes on")); err != nil {
		return err
	}
	return t.resume(nil)
}

// takenOver counts how often the turn was taken over since it got further.
func (t *turn) takenOver() (times int, err error) {
	for e, err := range session.Backward(t.ctx, t.r.store, t.w.key, 0) {
		if err != nil {
			return 0, err
		}
		switch d := e.Data.(type) {
		case *event.Notice:
			if d.Code == event.NoticeTakenOver {
				times++
			}
		case *event.ToolProgress, *event.Discard: // of what begins anew
		default:
			return times, nil
		}
	}
	return times, nil
}

// notice makes the event that says something about the turn where it stands: in the conversation's open run, or beside the user's words.
func (t *turn) notice(code, message string) []*event.Event {
	f := &t.w.fold
	e := &event.Event{TurnID: f.Turn.ID, RunID: f.Turn.UserRunID, Agent: "user", Data: &event.Notice{Code: code, Message: message}}
	if run := &f.Scope("").Run; run.Open {
		e.TurnID, e.RunID, e.Agent, e.Path = run.TurnID, run.ID, run.Agent, run.Path
	}
	return []*event.Event{e}
}
