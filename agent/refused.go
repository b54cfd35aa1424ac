package agent

import "errors"

// ErrRefused: the target of a transfer refused the conversation.
var ErrRefused = errors.New("transfer refused")

// RefusedError is the error of an agent's first step when the agent has certainly not begun to work on its input, such
// as a remote agent whose endpoint rejected the message. It is an [ErrRefused].
//
// If a transfer in the same turn started the run, and the run has not said or done anything, the runner returns the
// conversation to the source. It writes a notice, a committed transfer to the source of the type
// [event.TransferTypeRefused], and the run's end in one write. The source then runs again, and its model reads Reason.
// In every other case the error ends the run like any other error: at the beginning of a turn, inside the refusing
// agent, and after a route, whose source has answered already.
//
// An agent that cannot tell whether its message had an effect must yield another error, because the source may send
// the message again.
type RefusedError struct {
	// Agent is the agent that refuses. The refusal of an agent inside it does not count.
	Agent string
	// Reason is a line for the source's model. It must contain no secrets.
	Reason string
	// Err is the cause, for people; nil if Reason is complete.
	Err error
}

func (e *RefusedError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return "agent " + e.Agent + " refused the transfer: " + e.Reason
}

func (e *RefusedError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }
