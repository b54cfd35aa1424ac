package session

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Status says how far the last turn of a session is. The zero value is the status of a session without a turn.
type Status string

// The statuses of a turn.
const (
	// StatusOpen: the turn has not ended. A process works on it, or it was cut off.
	StatusOpen Status = "open"
	// StatusWaiting: for decisions about calls, or for something that is done elsewhere.
	StatusWaiting Status = "waiting"
	// StatusDone: it was answered.
	StatusDone Status = "done"
	// StatusFailed: it ended with an error, or because of a limit.
	StatusFailed Status = "failed"
	// StatusCanceled: a client or the user ended it.
	StatusCanceled Status = "canceled"
)

// Check returns an error that is [agent.ErrBadInput] if there is no such status.
func (s Status) Check() error {
	switch s {
	case "", StatusOpen, StatusWaiting, StatusDone, StatusFailed, StatusCanceled:
		return nil
	}
	return fmt.Errorf("no session has the status %.40q: %w", string(s), agent.ErrBadInput)
}

// Status returns the status of the last turn.
func (f *Fold) Status() Status {
	switch {
	case f.Turn.ID == "":
		return ""
	case f.Unfinished():
		return StatusOpen
	}
	return StatusAt(f.Conversation.Run.Finish)
}

// StatusAt returns the status of a turn after a run of the conversation that ended for a reason.
func StatusAt(reason event.FinishReason) Status {
	switch reason {
	case event.FinishReasonTransfer:
		return StatusOpen
	case event.FinishReasonInputRequired:
		return StatusWaiting
	case event.FinishReasonCanceled:
		return StatusCanceled
	case event.FinishReasonError, event.FinishReasonLimit:
		return StatusFailed
	}
	return StatusDone
}

// After returns the status that a session has when events follow. Stores keep a session's status by it, so that they need
// no fold.
func (s Status) After(events ...*event.Event) Status {
	for _, e := range events {
		s = s.after(e.Scope, e.Data)
	}
	return s
}

func (s Status) after(scope string, data event.Data) Status {
	if scope != "" {
		return s
	}
	switch d := data.(type) {
	case *event.User, *event.HarnessStart:
		return StatusOpen
	case *event.HarnessEnd:
		return StatusAt(d.FinishReason)
	}
	return s
}
