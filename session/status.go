package session

import (
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Status is the progress of the last turn of a session. The zero value "" is the status of a session without a turn.
type Status string

// The statuses of a turn.
const (
	// StatusOpen: the turn has not ended. A process works on it, or the turn was interrupted.
	StatusOpen Status = "open"
	// StatusWaiting: the turn is paused. It waits for answers to questions, or for something external.
	StatusWaiting Status = "waiting"
	// StatusDone: the turn ended with an answer.
	StatusDone Status = "done"
	// StatusFailed: the turn ended with an error or at a limit.
	StatusFailed Status = "failed"
	// StatusCanceled: a client or the user canceled the turn.
	StatusCanceled Status = "canceled"
)

// Check returns an error that is [agent.ErrBadInput] if s is not a known status. "" is known.
func (s Status) Check() error {
	switch s {
	case "", StatusOpen, StatusWaiting, StatusDone, StatusFailed, StatusCanceled:
		return nil
	}
	return fmt.Errorf("%.40q is not a status: use open, waiting, done, failed or canceled: %w", string(s), agent.ErrBadInput)
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

// StatusAt returns the status of a turn after a run of the conversation ended with a reason.
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

// After returns the status of a session with status s after more events. Stores use it to keep the status of a
// session, so that they need no fold.
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
