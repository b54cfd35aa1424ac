package runner

import (
	"context"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// takeOvers is how often a turn is taken over without getting any further.
const takeOvers = 3

// TakeOver is Resume for a session whose holder has gone, which session.Store finds by Orphans. A notice
// in the log says so. A turn that was taken over three times in a row, and got no further, is left
// alone, which is noted once: the error is [ErrLeft] then. A turn that waits for something keeps waiting.
func (r *Runner) TakeOver(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := session.CheckKey(key); err != nil {
			yield(nil, err)
			return
		}
		left := false
		r.events(ctx, key, nil, func(t *opening) (err error) {
			left, err = t.takeOver()
			t.failed = err
			return err
		}, func(l *scope) error {
			if left {
				return ErrLeft
			}
			return l.run()
		}, yield)
	}
}

// takeOver takes up the turn, or reports that it is left alone. A fork that begins in the middle of a run begins a run of its
// own, which nobody has taken over yet.
func (t *opening) takeOver() (left bool, err error) {
	if !t.cached.fold.Unfinished() {
		return false, nil
	}
	if !t.branches() {
		switch times, left, err := t.takenOver(); {
		case err != nil || left:
			return left, err
		case times >= takeOvers:
			notice := t.notice(event.NoticeLeft, fmt.Sprintf("the turn was taken over %d times without getting any further: nobody goes on with it before it is resumed", times))
			return true, t.append(t.ctx, notice)
		}
	}
	if err := t.branch(t.notices(event.NoticeTakenOver, "the process that ran the turn has gone, and another one goes on")...); err != nil {
		return false, err
	}
	return false, t.resume(nil)
}

// changedHands reports whether a call that is pending was so when another process took the turn over, which may have begun it.
func (t *opening) changedHands() bool {
	f := &t.cached.fold
	made := f.Seq
	for _, scope := range append(f.Inner(), "") {
		for _, c := range f.Scope(scope).Run.Pending {
			made = min(made, c.Made)
		}
	}
	for e, err := range t.Events(t.ctx, made) {
		if err != nil {
			return true
		}
		if d, ok := e.Data.(*event.Notice); ok && d.Code == event.NoticeTakenOver {
			return true
		}
	}
	return false
}

// takenOver counts how often the turn was taken over since it got further, and reports whether it was left alone
// since then.
func (t *opening) takenOver() (times int, left bool, err error) {
	for e, err := range session.Backward(t.ctx, t.r.store, t.key, t.cached.fold.Seq+1) {
		if err != nil {
			return 0, false, err
		}
		switch d := e.Data.(type) {
		case *event.Notice:
			switch d.Code {
			case event.NoticeTakenOver:
				if e.Scope == "" {
					times++
				}
			case event.NoticeLeft:
				return 0, true, nil
			}
		case *event.ToolProgress, *event.Discard: // of what begins anew
		default:
			return times, false, nil
		}
	}
	return times, false, nil
}

// notice makes the event that says something about the turn where it stands: in the conversation's open run, or beside the user's words.
func (t *opening) notice(code, message string) []*event.Event {
	f := &t.cached.fold
	e := &event.Event{TurnID: f.Turn.ID, RunID: f.Turn.UserRunID, Agent: "user", Data: &event.Notice{Code: code, Message: message}}
	if run := &f.Scope("").Run; run.Open {
		e.TurnID, e.RunID, e.Agent, e.Path = run.TurnID, run.ID, run.Agent, run.Path
	}
	return []*event.Event{e}
}

// notices makes the events that say something in each run that is open, and not only in the conversation's: who has seen words
// of a run takes them back then.
func (t *opening) notices(code, message string) []*event.Event {
	f := &t.cached.fold
	events := t.notice(code, message)
	for _, scope := range f.Inner() {
		if run := &f.Scope(scope).Run; run.Open && !past(t.lease, run) {
			events = append(events, &event.Event{TurnID: run.TurnID, RunID: run.ID, Scope: scope, Agent: run.Agent, Path: run.Path, Data: &event.Notice{Code: code, Message: message}})
		}
	}
	return events
}
