package front

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Fault is why a request got no answer, in words that its client may see.
type Fault struct {
	Status int
	// Code is one of a short list, for programs.
	Code   string
	Detail string
	// Problems are the mistakes of a body, with their places. A client is told the first of them.
	Problems []Problem
	// RetryAfter is when it may be tried again; 0 says nothing.
	RetryAfter time.Duration
	// Seq is where the log ends instead; 0 says nothing.
	Seq int64
}

// Problem is one mistake of a request.
type Problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (f *Fault) Error() string { return f.Detail }

// BadRequest is a fault of the client's.
func BadRequest(format string, a ...any) *Fault {
	return &Fault{Status: http.StatusBadRequest, Code: "bad_request", Detail: fmt.Sprintf(format, a...)}
}

// NoPosition is the fault, of status 422, of a request that names a position or a place which a log or a list does not have.
func NoPosition(format string, a ...any) *Fault {
	return &Fault{Status: http.StatusUnprocessableEntity, Code: "no_position", Detail: fmt.Sprintf(format, a...)}
}

// CheckPosition returns a [NoPosition] fault if the position at is after the end of the log.
func CheckPosition(at, end int64) error {
	if at > end {
		f := NoPosition("the session has no position %d", at)
		f.Problems = []Problem{{"at", fmt.Sprintf("is %d, and the session ends at %d", at, end)}}
		return f
	}
	return nil
}

// Conflict is a fault of what cannot be done as things stand.
func Conflict(code, detail string) *Fault {
	return &Fault{Status: http.StatusConflict, Code: code, Detail: detail}
}

// NotFound is what there is not, and what is somebody else's.
func NotFound() *Fault {
	return &Fault{Status: http.StatusNotFound, Code: "not_found", Detail: "not found"}
}

// Missing is [NotFound] for what there is not, where that is no secret.
func Missing(what string) *Fault {
	return &Fault{Status: http.StatusNotFound, Code: "not_found", Detail: what}
}

// Unprocessable is a fault of a request that is well-formed and asks for what there cannot be.
func Unprocessable(code, detail string) *Fault {
	return &Fault{Status: http.StatusUnprocessableEntity, Code: code, Detail: detail}
}

// refused are the codes of what a guard refuses.
func codeOf(status int) string {
	switch status {
	case http.StatusForbidden:
		return "origin"
	case http.StatusRequestTimeout:
		return "body_timeout"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusMisdirectedRequest:
		return "misdirected"
	case http.StatusTooManyRequests:
		return "too_many"
	}
	return "bad_request"
}

// FaultOf tells what an error is to a client. What is not known is the server's own fault, and
// is not told.
func FaultOf(err error) *Fault {
	var fault *Fault
	var refused *access.RefusedError
	var limit *access.LimitError
	var large *agent.MessageSizeError
	switch {
	case errors.As(err, &fault):
		return fault.bounded()
	case errors.As(err, &refused):
		return &Fault{Status: refused.Status, Code: codeOf(refused.Status), Detail: refused.Message, RetryAfter: refused.RetryAfter}
	case errors.As(err, &limit):
		return &Fault{Status: http.StatusTooManyRequests, Code: "too_many", Detail: limit.Error(), RetryAfter: time.Second}
	case errors.Is(err, access.ErrUnauthenticated):
		return &Fault{Status: http.StatusUnauthorized, Code: "unauthenticated", Detail: err.Error()}
	case errors.Is(err, access.ErrForbidden):
		return &Fault{Status: http.StatusForbidden, Code: "forbidden", Detail: err.Error()}
	case errors.Is(err, live.ErrClosed):
		return &Fault{Status: http.StatusServiceUnavailable, Code: "stopping", Detail: "the server is being stopped", RetryAfter: time.Second}
	case errors.Is(err, session.ErrUnavailable):
		return &Fault{Status: http.StatusServiceUnavailable, Code: "store_unavailable", Detail: "the sessions cannot be read or written now; the server's log says why, under the id of this request", RetryAfter: time.Second}
	case errors.Is(err, live.ErrCanceled): // by another request
		return &Fault{Status: http.StatusConflict, Code: "canceled", Detail: "the turn was canceled before it could begin or continue"}
	case errors.Is(err, live.ErrStopped):
		return &Fault{Status: http.StatusConflict, Code: "stopped", Detail: "the turn was stopped; it can be resumed"}
	case errors.Is(err, live.ErrNoTurn), errors.Is(err, agent.ErrNoFile):
		return NotFound()
	case errors.Is(err, runner.ErrTurnOver):
		return &Fault{Status: http.StatusConflict, Code: "turn_over", Detail: err.Error()}
	case errors.Is(err, live.ErrMismatch):
		return &Fault{Status: http.StatusUnprocessableEntity, Code: "idempotency_mismatch", Detail: "a request with this Idempotency-Key asked for something else"}
	case errors.Is(err, runner.ErrNoApproval):
		return &Fault{Status: http.StatusConflict, Code: "nothing_waits", Detail: err.Error()}
	case errors.Is(err, agent.ErrSessionBusy):
		return &Fault{Status: http.StatusConflict, Code: "session_busy", Detail: "a turn of the session is under way", RetryAfter: time.Second}
	case errors.Is(err, agent.ErrConflict):
		return &Fault{Status: http.StatusPreconditionFailed, Code: "position_moved", Detail: "the session has changed since"}
	case errors.As(err, &large):
		return &Fault{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: err.Error()}
	case errors.Is(err, agent.ErrBadInput):
		return BadRequest("%s", err)
	}
	return &Fault{Status: http.StatusInternalServerError, Code: "internal", Detail: "the server cannot answer; its log says why, under the id of this request"}
}
