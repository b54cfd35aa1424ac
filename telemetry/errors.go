package telemetry

import (
	"context"
	"errors"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// errorClass returns the error.type of an error, which is never empty: the code
// of a failed run or of a failed model call, or one of the words below. They are
// the same that the runner writes into the log's error events, as far as it does.
func errorClass(ctx context.Context, err error) string {
	var run *agent.RunError
	var model *llm.Error
	switch {
	case errors.As(err, &run) && run.Code != "":
		return run.Code
	case errors.As(err, &model):
		return string(model.Code)
	case errors.Is(err, agent.ErrSessionBusy):
		return "session_busy"
	case errors.Is(err, agent.ErrConflict):
		return "conflict"
	case errors.Is(err, agent.ErrBadInput):
		return "bad_input"
	case errors.Is(err, agent.ErrTransferLimit):
		return "transfer_limit"
	case errors.Is(err, agent.ErrTransferRejected):
		return "transfer_rejected"
	case errors.As(err, new(*agent.TripwireError)):
		return "tripwire"
	case errors.As(err, new(*agent.BudgetError)):
		return "budget"
	case errors.Is(err, agent.ErrLimit):
		return "limit"
	case errors.Is(err, agent.ErrUnknownPrice):
		return "unknown_price"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled), ctx.Err() != nil: // perhaps with a cause of its own
		return "canceled"
	}
	return otherError
}
