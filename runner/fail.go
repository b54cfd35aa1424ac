package runner

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// notCompleted is why blocks are void whose deltas were shown.
const notCompleted = "the answer was not completed"

// errClosed is the error of a run that was closed meanwhile, because the run or the call
// that had opened its scope is over.
var errClosed = errors.New("the run was closed")

// FailureOf returns an error of a turn or of a sample as the log has it: without a guard's own error, which may
// quote what the guard refused.
func FailureOf(err error) *event.Failure {
	f := &event.Failure{Code: errorCode(err), Message: err.Error(), Retryable: llm.Retryable(err)}
	if trip := (*agent.TripwireError)(nil); errors.As(err, &trip) {
		f.Message = trip.Refusal()
	}
	return f
}

func errorCode(err error) string { return cmp.Or(agent.ErrorCode(err), "agent_error") }

// unsaved is what a store says, in words that a model may read.
type unsaved struct {
	words string
	cause error
}

func (e *unsaved) Error() string { return e.words }

func (e *unsaved) Unwrap() error { return e.cause }

// ErrLeft reports that no process adopts a turn any more, because three processes died at the same place of it.
// Resume resumes the turn.
var ErrLeft = fmt.Errorf("the turn has ended three processes at the same place: look why, and resume it: %w", agent.ErrSuspended)

var (
	// ErrTurnOver says that a turn is not the last one of its session any more.
	ErrTurnOver = errors.New("the turn is not the session's last one any more")

	// ErrNotBegun is what an error of Begin, Decide or Advance is besides what it says itself, if no step was
	// begun: the session was busy, say, or the store could not be reached. The next try is not one more attempt.
	ErrNotBegun = errors.New("no step was begun")
)

type notBegun struct{ error }

func (e notBegun) Is(target error) bool { return target == ErrNotBegun }

func (e notBegun) Unwrap() error { return e.error }

var errNoDesk = fmt.Errorf("the runner has no desk where a person could answer: give it one with runner.WithDesk: %w", agent.ErrBadInput)

// ErrNoApproval says that no such question is open: the call asked none, the question is decided or withdrawn, or the decision is about another one.
var ErrNoApproval = errors.New("no such question is open")
