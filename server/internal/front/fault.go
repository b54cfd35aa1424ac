package front

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Fault is the error of a request, as the client may see it.
type Fault struct {
	// Status is the HTTP status.
	Status int
	// Code identifies the kind of the error for programs.
	Code string
	// Detail is a sentence for people.
	Detail string
	// Problems are the mistakes of a request. The answer contains the first 20.
	Problems []Problem
	// RetryAfter is how long the client should wait before it retries. 0 gives no advice.
	RetryAfter time.Duration
	// Seq is the position at which the log ends. 0 does not report it.
	Seq int64
}

// Problem is one mistake of a request. Path is a member of the body, such as list[1].b, or a query parameter.
type Problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (f *Fault) Error() string { return f.Detail }

// BadRequest returns a fault with status 400.
func BadRequest(format string, a ...any) *Fault {
	return &Fault{Status: http.StatusBadRequest, Code: "bad_request", Detail: fmt.Sprintf(format, a...)}
}

// NoPage returns a fault with status 422 for a parameter after that no page returned as next.
func NoPage() *Fault {
	return Unprocessable("no_position", "after is not a position in the list: use the value of next from the page before")
}

// CheckPosition returns a fault with status 422 if a position is after the end of the log.
func CheckPosition(at, end int64) error {
	if at > end {
		f := Unprocessable("no_position", fmt.Sprintf("the session has no position %d", at))
		f.Problems = []Problem{{"at", fmt.Sprintf("is %d, but the session ends at %d", at, end)}}
		return f
	}
	return nil
}

// Conflict returns a fault with status 409, for a request that does not fit the current state.
func Conflict(code, detail string) *Fault {
	return &Fault{Status: http.StatusConflict, Code: code, Detail: detail}
}

// NotFound returns a fault with status 404. It is the same for things that do not exist and for things of other users,
// so that it does not tell them apart.
func NotFound() *Fault {
	return &Fault{Status: http.StatusNotFound, Code: "not_found", Detail: "not found"}
}

// Missing returns a [NotFound] fault with a detail, for things whose existence is not secret.
func Missing(detail string) *Fault {
	return &Fault{Status: http.StatusNotFound, Code: "not_found", Detail: detail}
}

// Unprocessable returns a fault with status 422, for a request that is well-formed but cannot be executed.
func Unprocessable(code, detail string) *Fault {
	return &Fault{Status: http.StatusUnprocessableEntity, Code: code, Detail: detail}
}

// codeOf returns the code of a request that a guard refuses.
func codeOf(status int) string {
	switch status {
	case http.StatusForbidden:
		return "origin"
	case http.StatusRequestTimeout:
		return "body_timeout"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusUnsupportedMediaType:
		return "unsupported_media_type"
	case http.StatusMisdirectedRequest:
		return "misdirected"
	case http.StatusTooManyRequests:
		return "too_many"
	}
	return "bad_request"
}

// FaultOf returns the fault of an error. For an unknown error it returns status 500, and a detail that does not
// contain the error's text.
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
		return &Fault{Status: http.StatusServiceUnavailable, Code: "store_unavailable", Detail: "the store is not available; the server's log has the reason under the id of this request", RetryAfter: time.Second}
	case errors.Is(err, live.ErrCanceled): // another request canceled the turn
		return &Fault{Status: http.StatusConflict, Code: "canceled", Detail: "the turn was canceled before it started or continued"}
	case errors.Is(err, session.ErrStopped):
		return &Fault{Status: http.StatusConflict, Code: "stopped", Detail: "the turn was stopped; it can be resumed"}
	case errors.Is(err, live.ErrNoTurn):
		return Missing(live.ErrNoTurn.Error())
	case errors.Is(err, agent.ErrNoFile):
		return Missing("the session has no such file")
	case errors.Is(err, runner.ErrTurnOver):
		return &Fault{Status: http.StatusConflict, Code: "turn_over", Detail: err.Error()}
	case errors.Is(err, live.ErrMismatch):
		return &Fault{Status: http.StatusUnprocessableEntity, Code: "idempotency_mismatch", Detail: "an earlier request with this Idempotency-Key has different content: use a new key"}
	case errors.Is(err, runner.ErrNoApproval):
		return &Fault{Status: http.StatusConflict, Code: "nothing_waits", Detail: err.Error()}
	case errors.Is(err, agent.ErrSessionBusy):
		return &Fault{Status: http.StatusConflict, Code: "session_busy", Detail: "a turn of the session is running", RetryAfter: time.Second}
	case errors.Is(err, agent.ErrConflict):
		return &Fault{Status: http.StatusPreconditionFailed, Code: "position_moved", Detail: "the session has changed since the position that the request expects"}
	case errors.As(err, &large):
		return &Fault{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: err.Error()}
	case errors.Is(err, agent.ErrBadInput):
		return BadRequest("%s", strings.TrimSuffix(err.Error(), ": "+agent.ErrBadInput.Error()))
	}
	return &Fault{Status: http.StatusInternalServerError, Code: "internal", Detail: "internal error; the server's log has the reason under the id of this request"}
}
