package telemetry

import (
	"context"
	"errors"

	"github.com/agentarbor/arbor/agent"
)

// errorClass returns the error.type of an error, which is never empty: the code
// of a failed run or of a failed model call, or one of the words below. They are
// the same that the runner writes into the log's error events, as far as it does.
func errorClass(ctx context.Context, err error) string {
	switch code := agent.ErrorCode(err); {
	case code != "":
		return code
	case errors.Is(err, agent.ErrSessionBusy):
		return "session_busy"
	case errors.Is(err, agent.ErrConflict):
		return "conflict"
	case errors.Is(err, agent.ErrBadInput):
		return "bad_input"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled), ctx.Err() != nil: // perhaps with a cause of its own
		return "canceled"
	}
	return otherError
}
