package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// ErrorCode classifies what went wrong with a remote agent.
type ErrorCode string

// The codes of [Error]. They are also the codes of error events in the log.
const (
	CodeCard          ErrorCode = "remote_card"           // the card cannot be had, or offers nothing we speak
	CodeUnreachable   ErrorCode = "remote_unreachable"    // no connection, or it broke
	CodeUnauthorized  ErrorCode = "remote_unauthorized"   // credentials are missing or refused
	CodeTimeout       ErrorCode = "remote_timeout"        // one of the time limits passed
	CodeTooLarge      ErrorCode = "remote_too_large"      // the response is longer than allowed
	CodeProtocol      ErrorCode = "remote_protocol"       // a protocol error, or not what the protocol promises
	CodeTaskFailed    ErrorCode = "remote_task_failed"    // the task ended as failed
	CodeTaskRejected  ErrorCode = "remote_task_rejected"  // the remote agent refused the task
	CodeTaskCanceled  ErrorCode = "remote_task_canceled"  // the task was canceled by somebody else
	CodeNothingToSend ErrorCode = "remote_nothing_to_say" // the conversation holds no new words
)

// Error is a failure of a remote agent. Its text holds neither credentials nor
// the query of a URL.
type Error struct {
	Agent string
	// Card is the URL of the agent's card, without query and credentials.
	Card string
	Code ErrorCode
	// Status is the HTTP status, 0 if there was none.
	Status  int
	Message string
	// Err is the cause, if any.
	Err error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("remote agent at %s (%s, HTTP %d): %s", e.Card, e.Code, e.Status, e.Message)
	}
	return fmt.Sprintf("remote agent at %s (%s): %s", e.Card, e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

var (
	errIdle     = errors.New("nothing was received within the idle time limit")
	errTooLarge = errors.New("the response is longer than the limit")
	errBadJSON  = errors.New("the response is not JSON, although it says so")
)

// statusError is a response that is no success.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d", e.status) }

// classify makes an Error of what a call returned. It drops the URLs that the
// HTTP client writes into its errors.
func (r *remote) classify(ctx context.Context, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := &Error{Agent: r.name, Card: r.cards.shown, Code: CodeUnreachable, Err: err}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		e.Err = urlErr.Err
	}
	e.Message = e.Err.Error()
	var status *statusError
	var protocol *sdk.Error
	switch cause := context.Cause(ctx); {
	case errors.Is(err, errTooLarge):
		e.Code, e.Message = CodeTooLarge, errTooLarge.Error()
	case errors.Is(cause, errIdle):
		e.Code, e.Message, e.Err = CodeTimeout, errIdle.Error(), cause
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(cause, context.DeadlineExceeded):
		e.Code, e.Message = CodeTimeout, "the time limit of one answer passed"
	case errors.As(err, &status):
		e.Status = status.status
		e.Message = status.Error()
		if e.Status == 401 || e.Status == 403 {
			e.Code = CodeUnauthorized
		} else if e.Status < 500 {
			e.Code = CodeProtocol
		}
	case errors.Is(err, sdk.ErrUnauthenticated), errors.Is(err, sdk.ErrUnauthorized):
		e.Code = CodeUnauthorized
	case errors.As(err, &protocol), errors.Is(err, errBadJSON), urlErr == nil:
		e.Code = CodeProtocol
	}
	if len(e.Message) > 2000 {
		e.Message = clip(e.Message, 2000)
	}
	return e
}
