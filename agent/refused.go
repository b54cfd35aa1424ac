package agent

import "errors"

// ErrRefused: an agent did not take over the conversation that was handed to it.
var ErrRefused = errors.New("handover refused")

// RefusedError is the error of an agent's first step when the agent has certainly
// not begun to work on its input, such as a remote agent whose endpoint rejected
// the message. It is an [ErrRefused].
//
// If a transfer in the same turn started the run, and the run has not said or done
// anything, the runner gives the conversation back. It writes a notice, a committed
// transfer to the source of the type [event.TransferTypeRefused], and the run's end in one
// write. The source then runs again, and its model reads Reason. In every other case the
// error ends the run like any other: at the beginning of a turn, inside of the refusing
// agent, and after a route, whose source has answered already.
//
// An agent that cannot tell whether its words had an effect must yield another error:
// whoever gets the conversation back may do the same thing once more.
type RefusedError struct {
	// Agent is the agent that refuses; a refusal of one inside of it does not count.
	Agent string
	// Reason is a line for the model that handed over. It must hold no secrets.
	Reason string
	// Err is the cause, for people; nil if Reason says it all.
	Err error
}

func (e *RefusedError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return "agent " + e.Agent + " refused the handover: " + e.Reason
}

func (e *RefusedError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }
