package telemetry

import (
	"context"
	"errors"

	"github.com/agentarbor/arbor/agent"
)

// errorClass returns the error.type of an error, which is never empty: the code of a failed run or model call, or one of
// the values below. For errors that the runner logs, it is the code in the log's error event.
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
	case errors.Is(err, context.Canceled), ctx.Err() != nil: // err may be the cause of ctx
		return "canceled"
	}
	return otherError
}
