package runner

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// notCompleted is the message of a discard for blocks that were only shown in part.
const notCompleted = "the answer was not completed"

// errClosed is the error of a run that was closed because the run or the call that had opened its scope is over.
var errClosed = errors.New("the run was closed")

// FailureOf returns the failure that the log stores for an error of a turn or of a sample. It leaves out the error of
// a guard, which may quote what the guard refused.
func FailureOf(err error) *event.Failure {
	f := &event.Failure{Code: errorCode(err), Message: err.Error(), Retryable: llm.Retryable(err)}
	if trip := (*agent.TripwireError)(nil); errors.As(err, &trip) {
		f.Message = trip.Refusal()
	}
	return f
}

func errorCode(err error) string { return cmp.Or(agent.ErrorCode(err), "agent_error") }

// unsaved is an error of a store, with a message that a model may read.
type unsaved struct {
	message string
	cause   error
}

func (e *unsaved) Error() string { return e.message }

func (e *unsaved) Unwrap() error { return e.cause }

// ErrLeft reports that no process adopts a turn any more, because too many died or were stopped at the same place in
// it. Resume resumes the turn.
var ErrLeft = fmt.Errorf("too many processes died or were stopped at the same place of the turn: find the cause, then resume it: %w", agent.ErrSuspended)

var (
	// ErrTurnOver reports that the session has continued with a later turn.
	ErrTurnOver = errors.New("the turn is not the session's last one any more")

	// ErrNotBegun is wrapped by an error of Begin, Decide or Advance if no step was started, for example because
	// the session was busy or the store could not be reached. The next try does not count as another attempt.
	ErrNotBegun = errors.New("no step was begun")
)

type notBegun struct{ error }

func (e notBegun) Is(target error) bool { return target == ErrNotBegun }

func (e notBegun) Unwrap() error { return e.error }

var errNoDesk = fmt.Errorf("the runner has no desk where a person could answer: give it one with runner.WithDesk: %w", agent.ErrBadInput)

// ErrNoApproval reports that no such question is open: the call asked none, the question was decided or withdrawn, or
// the decision is about another question.
var ErrNoApproval = errors.New("no such question is open")
