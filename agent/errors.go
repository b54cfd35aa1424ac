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
	// ErrTransferRejected: an agent kept asking for transfers that are not legal.
	ErrTransferRejected = errors.New("transfer rejected")
	// ErrUnknownTarget: no agent of that name may be transferred to.
	ErrUnknownTarget = errors.New("unknown transfer target")
	// ErrTransferLimit: the turn has used up its transfers, or runs in a circle.
	ErrTransferLimit = errors.New("transfer limit reached")
	// ErrTargetNotReady: the target is legal but cannot start.
	ErrTargetNotReady = errors.New("transfer target not ready")
	// ErrLimit: another limit of the turn is reached; [LimitError] says which.
	ErrLimit = errors.New("limit reached")
	// ErrTimeout: an agent of a workflow took longer than it may; [TimeoutError] says
	// which.
	ErrTimeout = errors.New("timeout")
	// ErrUnknownPrice: a budget in money cannot be kept, because no price of the
	// model is known.
	ErrUnknownPrice = errors.New("unknown price")
	// ErrUnknownUsage: a budget cannot be kept, because an endpoint does not say
	// what its answers use.
	ErrUnknownUsage = errors.New("unknown usage")
	// ErrSessionBusy: another turn holds the session.
	ErrSessionBusy = errors.New("session is busy with another turn")
	// ErrConflict: the log has moved on, or the lease was lost; nothing was stored.
	ErrConflict = errors.New("session was changed by another writer")
	// ErrOutputTruncated: a model's answer with tool calls was cut off by its
	// length limit, twice.
	ErrOutputTruncated = errors.New("model output truncated")
	// ErrEmptyAnswer: a model's answer had neither words nor calls, twice.
	ErrEmptyAnswer = errors.New("empty answer")
	// ErrRepeatedCall: a model made the same call three times in one run, though the
	// answer to each said what is wrong with it.
	ErrRepeatedCall = errors.New("the same invalid call again")
	// ErrSuspended is the cause with which a turn's context is cancelled when another
	// process will resume the turn. Work that agents have under way elsewhere, such as
	// remote tasks, is then not cancelled.
	ErrSuspended = errors.New("the turn is suspended")
	// ErrNoFile: the session has no file of that name or digest.
	ErrNoFile = errors.New("no such file")
	// ErrFileTooLarge: a file has more bytes than the runner keeps.
	ErrFileTooLarge = errors.New("the file is too large")
	// ErrBadInput: the user's message cannot be accepted.
	ErrBadInput = errors.New("bad input")
	// ErrWaits: a call or an inner agent waits for something outside the turn, such as a person's decision.
	// It is no failure. An agent that gets it returns it; the turn pauses, and when the turn
	// continues, the runner does the same step again.
	ErrWaits = errors.New("it waits for something outside")
)

// RunError is the error that ends a turn while an agent runs. It wraps the
// cause; Code is the code of the error event in the log.
type RunError struct {
	Agent string
	Code  string
	Err   error
}

func (e *RunError) Error() string { return fmt.Sprintf("agent %s: %v", e.Agent, e.Err) }
func (e *RunError) Unwrap() error { return e.Err }

// LimitError says which limit of a turn was reached. It is an ErrLimit.
type LimitError struct {
	Name  string // such as "model calls"
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit reached: %s, at most %d a turn", e.Name, e.Limit)
}

// Is makes errors.Is(err, ErrLimit) true.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// TimeoutError says which agent of a workflow took too long. It is an ErrTimeout.
type TimeoutError struct {
	Agent string
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s had no answer after %s", e.Agent, e.After)
}

// Is makes errors.Is(err, ErrTimeout) true.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// BudgetError says which budget the next model call would exceed, or which one
// the turn's time has used up. It is an ErrLimit.
type BudgetError struct {
	Of     string // whose budget: "the turn", "the session" or "the agent billing"
	Unit   string // "tokens", "cost" or "seconds"
	Budget float64
	Used   float64 // what is spent and what other calls have reserved
	Needs  float64 // what the next call was expected to use, 0 for time
}

func (e *BudgetError) Error() string {
	switch e.Unit {
	case "seconds":
		return fmt.Sprintf("budget spent: %s has used its %g seconds", e.Of, e.Budget)
	case "cost":
		return fmt.Sprintf("budget spent: %s has cost %g of %g, and the next answer costs about %g", e.Of, e.Used, e.Budget, e.Needs)
	}
	return fmt.Sprintf("budget spent: %s has used %g of %g %s, and the next answer needs about %g", e.Of, e.Used, e.Budget, e.Unit, e.Needs)
}

// Is makes errors.Is(err, ErrLimit) true.
func (e *BudgetError) Is(target error) bool { return target == ErrLimit }

// MessageSizeError says that a user's message is larger than a budget or the window of a model
// allows. Nothing was stored. It is an [ErrBadInput].
type MessageSizeError struct {
	Tokens int     // of the message, about
	Of     string  // "the budget of the session" or "the window of the model of billing"
	Unit   string  // "tokens" or "cost"
	Needs  float64 // what a request with the message would need
	Left   float64 // what one may need
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

// TransferLimitError is an ErrTransferLimit. An agent answers the first of a run with
// a result for its model, which is not offered transfers any more; the next one ends
// the run.
type TransferLimitError struct{ Reason string }

func (e *TransferLimitError) Error() string { return "transfer limit reached: " + e.Reason }

// Is makes errors.Is(err, ErrTransferLimit) true.
func (e *TransferLimitError) Is(target error) bool { return target == ErrTransferLimit }

// ErrorCode returns the code by which the log's error events name what ended a
// run, and "" for an error of an agent's own.
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

// ForModel returns what a model may read of an error that ended another run, or
// its own last one. It leaves out what a guard has refused, which the guard's
// error may quote, and the value of a panic. An error in the chain with a method Public, such as [llm.Error], is shown as
// that returns it: without the address of an endpoint or of a remote agent, and without what that said.
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
