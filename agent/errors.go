package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// The errors that end a turn, or refuse a transfer. Test with errors.Is.
var (
	// ErrTransferRejected: a transfer is not legal, or an agent repeatedly requested illegal transfers.
	ErrTransferRejected = errors.New("transfer rejected")
	// ErrUnknownTarget: the agent may not transfer to any agent with this name.
	ErrUnknownTarget = errors.New("unknown transfer target")
	// ErrTransferLimit: the turn has used up its transfers, or its transfers form a circle.
	ErrTransferLimit = errors.New("transfer limit reached")
	// ErrTargetNotReady: the target is legal but cannot start.
	ErrTargetNotReady = errors.New("transfer target not ready")
	// ErrLimit: another limit of the turn is reached; see [LimitError] and [BudgetError].
	ErrLimit = errors.New("limit reached")
	// ErrTimeout: an agent of a workflow exceeded its time limit; see [TimeoutError].
	ErrTimeout = errors.New("timeout")
	// ErrUnknownPrice: a budget in money cannot be enforced, because the model's price is unknown.
	ErrUnknownPrice = errors.New("unknown price")
	// ErrUnknownUsage: a budget cannot be enforced, because an endpoint does not report the usage of its answers.
	ErrUnknownUsage = errors.New("unknown usage")
	// ErrSessionBusy: another turn holds the session.
	ErrSessionBusy = errors.New("session is busy with another turn")
	// ErrConflict: another writer changed the log, or the lease was lost; nothing was stored.
	ErrConflict = errors.New("session was changed by another writer")
	// ErrOutputTruncated: the length limit cut off two answers of a model with tool calls.
	ErrOutputTruncated = errors.New("model output truncated")
	// ErrEmptyAnswer: two answers of a model had neither text nor calls.
	ErrEmptyAnswer = errors.New("empty answer")
	// ErrRepeatedCall: a model made the same invalid call in three answers of one run, although each result said
	// what is wrong with the call.
	ErrRepeatedCall = errors.New("the same invalid call again")
	// ErrSuspended is the cause of a turn's cancelled context when another process will resume the turn. The agents'
	// remote tasks are then not cancelled.
	ErrSuspended = errors.New("the turn is suspended")
	// ErrNoFile: the session has no file with this name or digest.
	ErrNoFile = errors.New("no such file")
	// ErrFileTooLarge: a file has more bytes than the runner stores.
	ErrFileTooLarge = errors.New("the file is too large")
	// ErrBadInput: the user's message cannot be accepted.
	ErrBadInput = errors.New("bad input")
	// ErrWaits: a call or an inner agent waits for something outside the turn, such as a person's decision. It is not a
	// failure. An agent that gets it returns it, and the turn pauses. When the turn resumes, the runner runs the same
	// step again.
	ErrWaits = errors.New("it waits for something outside")
)

// RunError is the error that ends a turn while an agent runs. It wraps the cause. Code is the code of the error event
// in the log.
type RunError struct {
	Agent string
	Code  string
	Err   error
}

func (e *RunError) Error() string { return fmt.Sprintf("agent %s: %v", e.Agent, e.Err) }
func (e *RunError) Unwrap() error { return e.Err }

// LimitError reports which limit of a turn was reached. It is an [ErrLimit].
type LimitError struct {
	Name  string // such as "model calls"
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit reached: %s, at most %d a turn", e.Name, e.Limit)
}

// Is makes errors.Is(err, ErrLimit) true.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// TimeoutError reports which agent of a workflow exceeded its time limit. It is an [ErrTimeout].
type TimeoutError struct {
	Agent string
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s had no answer after %s", e.Agent, e.After)
}

// Is makes errors.Is(err, ErrTimeout) true.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// BudgetError reports which budget the next model call would exceed, or which budget of time the turn has used up. It
// is an [ErrLimit].
type BudgetError struct {
	Of     string // the owner of the budget: "the turn", "the session" or "the agent billing"
	Unit   string // "tokens", "cost" or "seconds"
	Budget float64
	Used   float64 // spent, or reserved by other calls
	Needs  float64 // the expected use of the next call; 0 for seconds
}

func (e *BudgetError) Error() string {
	left := max(e.Budget-e.Used, 0)
	switch e.Unit {
	case "seconds":
		return fmt.Sprintf("over budget: %s has used its %g seconds", e.Of, e.Budget)
	case "cost":
		return fmt.Sprintf("over budget: the next request costs about %.6g, and %s may spend %.6g more", e.Needs, e.Of, left)
	}
	return fmt.Sprintf("over budget: the next request needs about %.0f %s, and %s may use %.0f more", e.Needs, e.Unit, e.Of, left)
}

// Is makes errors.Is(err, ErrLimit) true.
func (e *BudgetError) Is(target error) bool { return target == ErrLimit }

// MessageSizeError reports that a user's message is larger than a budget or the window of a model allows. Nothing was
// stored. It is an [ErrBadInput].
type MessageSizeError struct {
	Tokens int     // the approximate size of the message
	Of     string  // "the budget of the session" or "the window of the model of billing"
	Unit   string  // "tokens" or "cost"
	Needs  float64 // the size or cost of a request with the message
	Left   float64 // the size or cost that is left for a request
}

func (e *MessageSizeError) Error() string {
	needs := fmt.Sprintf("needs about %.0f tokens, and %.0f", e.Needs, e.Left)
	if e.Unit == "cost" {
		needs = fmt.Sprintf("costs about %.6g, and %.6g", e.Needs, e.Left)
	}
	return fmt.Sprintf("the message is too large for %s: it has about %d tokens, and the request with it %s are left; nothing was stored; shorten the message, or send it in parts", e.Of, e.Tokens, needs)
}

// Is makes errors.Is(err, ErrBadInput) true.
func (e *MessageSizeError) Is(target error) bool { return target == ErrBadInput }

// TransferLimitError reports that a transfer exceeds a limit. It is an [ErrTransferLimit]. An agent answers the first
// such error of a run with a result for its model, which is offered no more transfers. The next one ends the run.
type TransferLimitError struct{ Reason string }

func (e *TransferLimitError) Error() string { return "transfer limit reached: " + e.Reason }

// Is makes errors.Is(err, ErrTransferLimit) true.
func (e *TransferLimitError) Is(target error) bool { return target == ErrTransferLimit }

// ErrorCode returns the code of an error that ended a run, as in the log's error events. It is "" for an agent's own
// error.
func ErrorCode(err error) string {
	var run *RunError
	var model *llm.Error
	switch {
	case errors.As(err, &run) && run.Code != "":
		return run.Code
	case errors.Is(err, ErrTransferLimit):
		return "transfer_limit"
	case errors.Is(err, ErrTransferRejected):
		return "transfer_rejected"
	case errors.Is(err, ErrEmptyAnswer):
		return event.CodeEmptyAnswer
	case errors.Is(err, ErrRepeatedCall):
		return "repeated_call"
	case errors.As(err, new(*TripwireError)):
		return event.CodeTripwire
	case errors.As(err, new(*BudgetError)):
		return "budget"
	case errors.Is(err, ErrLimit):
		return "limit"
	case errors.As(err, new(*FindError)):
		return "find_agent"
	case errors.Is(err, ErrTargetNotReady):
		return "target_not_ready"
	case errors.Is(err, ErrTimeout):
		return "timeout"
	case errors.Is(err, ErrUnknownPrice):
		return "unknown_price"
	case errors.Is(err, ErrUnknownUsage):
		return "unknown_usage"
	case errors.As(err, &model):
		return string(model.Code)
	}
	return ""
}

// ForModel returns the text that a model may read of an error that ended another run, or the model's own last run. It
// omits the value of a panic, and a guard's error, which may quote the refused text. An error in the chain with a
// method Public, such as [llm.Error], is replaced by the result of that method, without the address or the answer of
// an endpoint or a remote agent.
func ForModel(err error) string {
	var run *RunError
	var trip *TripwireError
	var inner interface {
		error
		Public() string
	}
	switch {
	case errors.As(err, &trip):
		return trip.Withheld()
	case errors.As(err, &run) && run.Code == event.CodeInternal:
		return "agent " + run.Agent + ": internal error"
	case !errors.As(err, &inner):
		return err.Error()
	}
	if before, after, ok := strings.Cut(err.Error(), inner.Error()); ok {
		return before + inner.Public() + after
	}
	return inner.Public()
}
