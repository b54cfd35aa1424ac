package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// maxAdoptions is how often a turn whose process died may be adopted without progress. maxStops is how often a turn that
// a stopped server gave back may: a supervisor may stop each server that runs the turn.
const (
	maxAdoptions = 3
	maxStops     = 10
)

// adoptTurn adopts the turn. If no process may adopt it, left is [ErrLeft] or [session.ErrStopped]. A fork in the middle
// of a run starts its own run, which no process has adopted yet.
func (t *opening) adoptTurn() (left, err error) {
	if !t.fold().Unfinished() {
		return nil, nil
	}
	if t.fold().Stopped() {
		return session.ErrStopped, nil
	}
	if !t.branches() {
		if t.fold().StopsAt(t.lease.Stop) { // the process died before it stored the notice
			return session.ErrStopped, t.appendEvents(t.ctx, t.stoppedNotice())
		}
		switch died, stopped, gaveUp, err := t.countAdoptions(); {
		case err != nil:
			return nil, err
		case gaveUp:
			return ErrLeft, nil
		case died >= maxAdoptions || stopped >= maxStops:
			notice := t.turnNotice(event.NoticeLeft, fmt.Sprintf("the turn was adopted %d times after its process had died, and %d times after it was stopped, "+
				"without progress: it continues when a client or an operator resumes it", max(died, 0), stopped))
			return ErrLeft, t.appendEvents(t.ctx, notice)
		}
	}
	if err := t.branchOff(t.runNotices(event.NoticeAdopted, "the process that ran the turn has gone, and another one goes on")...); err != nil {
		return nil, err
	}
	return nil, t.resumeTurn(nil)
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
		if e.IsNotice(event.NoticeAdopted) {
			return true
		}
	}
	return false
}

// countAdoptions counts the adoptions since the turn's last progress. stopped is how often a process gave the turn back,
// and died is the number of adoptions less stopped: it is -1 if the only process gave the turn back. left reports that
// the turn was given up since its last progress.
func (t *opening) countAdoptions() (died, stopped int, left bool, err error) {
	for e, err := range session.Backward(t.ctx, t.r.store, t.key, t.fold().Seq+1) {
		if err != nil {
			return 0, 0, false, err
		}
		switch d := e.Data.(type) {
		case *event.Notice:
			switch {
			case d.Code == event.NoticeAdopted && e.Scope == "":
				died++
			case d.Code == event.NoticeGivenBack:
				died--
				stopped++
			case d.Code == event.NoticeLeft:
				return 0, 0, true, nil
			}
		case *event.ToolProgress, *event.Discard: // no progress: the work starts again
		default:
			return died, stopped, false, nil
		}
	}
	return died, stopped, false, nil
}

// recordCut stores a notice at the end of an unfinished turn that was stopped, or that the server gives back because the
// server is stopped. Other processes then know that this one has not died. It stores none if the log ends with the notice
// that the turn was stopped.
func (s *scope) recordCut(failed error) {
	t, cause := s.turn, context.Cause(s.turn.ctx)
	lost := errors.Is(failed, agent.ErrConflict) || errors.Is(failed, session.ErrUnavailable)
	givenBack := errors.Is(cause, session.ErrAbandoned)
	if lost || errors.Is(failed, ErrLeft) || !givenBack && !errors.Is(cause, session.ErrStopped) {
		return
	}
	t.mu.Lock()
	cut := t.mu.left == nil && !t.lost && t.fold().Unfinished() && !t.fold().Stopped()
	t.mu.Unlock()
	if !cut {
		return
	}
	notice := t.stoppedNotice()
	if givenBack {
		notice = t.turnNotice(event.NoticeGivenBack, "the server was stopped, and another process goes on")
	}
	if err := s.commit(context.WithoutCancel(s.ctx), notice); err != nil {
		t.r.logger.Warn("the log does not say why the turn was interrupted", "session", t.key.String(), "notice", notice[0].Data.(*event.Notice).Code, "error", err)
	}
}

// stoppedNotice returns the notice that the turn was stopped.
func (t *turn) stoppedNotice() []*event.Event {
	return t.turnNotice(event.NoticeStopped, "the turn was stopped: it continues when a user resumes it")
}

// turnNotice returns a notice about the turn: in the conversation's open run, or next to the user's message.
func (t *turn) turnNotice(code, message string) []*event.Event {
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
