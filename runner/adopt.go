package runner

import (
	"fmt"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// maxAdoptions is how often a turn may be adopted without progress.
const maxAdoptions = 3

// adoptTurn adopts the turn, or reports that no process adopts it any more. A fork in the middle of a run starts its
// own run, which no process has adopted yet.
func (t *opening) adoptTurn() (left bool, err error) {
	if !t.fold().Unfinished() {
		return false, nil
	}
	if !t.branches() {
		switch times, left, err := t.countAdoptions(); {
		case err != nil || left:
			return left, err
		case times >= maxAdoptions:
			notice := t.turnNotice(event.NoticeLeft, fmt.Sprintf("the turn was adopted %d times without progress: it continues when a client or an operator resumes it", times))
			return true, t.appendEvents(t.ctx, notice)
		}
	}
	if err := t.branchOff(t.runNotices(event.NoticeAdopted, "the process that ran the turn has gone, and another one goes on")...); err != nil {
		return false, err
	}
	return false, t.resumeTurn(nil)
}

// adoptedMeanwhile reports whether another process adopted the turn while a call was pending, so that it may have
// started the call.
func (t *opening) adoptedMeanwhile() bool {
	f := t.fold()
	made := f.Seq
	for _, scope := range append(f.Scopes.Names(), "") {
		for _, c := range f.Scope(scope).Run.Pending {
			made = min(made, c.Made)
		}
	}
	for e, err := range t.Events(t.ctx, made) {
		if err != nil {
			return true
		}
		if d, ok := e.Data.(*event.Notice); ok && d.Code == event.NoticeAdopted {
			return true
		}
	}
	return false
}

// countAdoptions returns how often the turn was adopted since its last progress, and whether it was given up since
// then.
func (t *opening) countAdoptions() (times int, left bool, err error) {
	for e, err := range session.Backward(t.ctx, t.r.store, t.key, t.fold().Seq+1) {
		if err != nil {
			return 0, false, err
		}
		switch d := e.Data.(type) {
		case *event.Notice:
			switch d.Code {
			case event.NoticeAdopted:
				if e.Scope == "" {
					times++
				}
			case event.NoticeLeft:
				return 0, true, nil
			}
		case *event.ToolProgress, *event.Discard: // no progress: the work starts again
		default:
			return times, false, nil
		}
	}
	return times, false, nil
}

// turnNotice returns a notice about the turn: in the conversation's open run, or next to the user's message.
func (t *opening) turnNotice(code, message string) []*event.Event {
	f, d := t.fold(), &event.Notice{Code: code, Message: message}
	if run := &f.Scope("").Run; run.Open {
		return []*event.Event{eventOf(run, "", d)}
	}
	return []*event.Event{{TurnID: f.Turn.ID, RunID: f.Turn.UserRunID, Agent: "user", Data: d}}
}

// runNotices returns a notice for each open run of all scopes, because a follower withdraws the partial text of each
// interrupted run.
func (t *opening) runNotices(code, message string) []*event.Event {
	f := t.fold()
	events := t.turnNotice(code, message)
	for _, scope := range f.Scopes.Names() {
		if run := &f.Scope(scope).Run; run.Open && !ofOtherSession(t.lease, run) {
			events = append(events, eventOf(run, scope, &event.Notice{Code: code, Message: message}))
		}
	}
	return events
}
