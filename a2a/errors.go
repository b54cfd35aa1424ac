package a2a

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/dialguard"
)

// ErrorCode classifies what went wrong with a remote agent.
type ErrorCode string

// The codes of [Error]. They are also the codes of error events in the log.
const (
	CodeCard          ErrorCode = "remote_card"           // the card cannot be had, or offers nothing we speak
	CodeUnreachable   ErrorCode = "remote_unreachable"    // no connection, or it broke
	CodeAddress       ErrorCode = "remote_address"        // the card leads to an address that is not allowed
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
	// Card is the URL of the agent's card, without query and credentials; "" if it
	// has none.
	Card string
	Code ErrorCode
	// Status is the HTTP status, 0 if there was none.
	Status  int
	Message string
	// Err is the cause, if any.
	Err error
}

func (e *Error) Error() string {
	who, code := "at "+e.Card, string(e.Code)
	if e.Card == "" {
		who = fmt.Sprintf("%q", e.Agent)
	}
	if e.Status != 0 {
		code = fmt.Sprintf("%s, HTTP %d", code, e.Status)
	}
	return fmt.Sprintf("remote agent %s (%s): %s", who, code, e.Message)
}

// Public returns the error for people who do not run the program and for models: without the address of the agent, and without
// the message of an error of the connection, which has addresses too.
func (e *Error) Public() string {
	text := fmt.Sprintf("remote agent %q (%s)", e.Agent, e.Code)
	switch e.Code {
	case CodeCard, CodeUnreachable, CodeAddress, CodeUnauthorized, CodeProtocol:
		return text
	}
	return text + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

var (
	errIdle     = errors.New("nothing was received within the idle time limit")
	errTooLarge = errors.New("the response is longer than the limit")
	errBadJSON  = errors.New("the response is not JSON, although it says so")
)

// statusError is a response that is no success.
type statusError struct {
	status  int
	message string // the peer's words, if any
}

func (e *statusError) Error() string {
	if e.message != "" {
		return fmt.Sprintf("HTTP status %d: %s", e.status, e.message)
	}
	return fmt.Sprintf("HTTP status %d", e.status)
}

func (e *statusError) unauthorized() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}

// verifyError is a card that the developer's verifier refused.
type verifyError struct{ err error }

func (e *verifyError) Error() string { return "it was not accepted: " + e.err.Error() }

func (e *verifyError) Unwrap() error { return e.err }

// quietError takes the place of an error whose text holds credentials.
type quietError struct {
	text string
	err  error
}

func (e *quietError) Error() string { return e.text }

// Is lets the error be compared, and nothing be taken out of it.
func (e *quietError) Is(target error) bool { return errors.Is(e.err, target) }

func (r *remote) fault(code ErrorCode, message string) *Error {
	message = clip(r.credentials.redact(strings.ToValidUTF8(message, "\uFFFD")), 2000)
	return &Error{Agent: r.name, Card: r.cards.shown, Code: code, Message: message}
}

// classify makes an Error of what a call returned. It drops the URLs that the
// HTTP client writes into its errors, and credentials that a peer repeats.
func (r *remote) classify(ctx context.Context, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		if own.Agent != "" {
			return own
		}
		e := *own // of a binding, which does not know whose it is
		e.Agent, e.Card = r.name, r.cards.shown
		return &e
	}
	e := &Error{Agent: r.name, Card: r.cards.shown, Code: CodeUnreachable, Err: err}
	var refused *verifyError
	var call *url.Error
	isCall := false
	for !errors.As(err, &refused) && errors.As(e.Err, &call) {
		isCall, e.Err = true, call.Err
	}
	e.Message = e.Err.Error()
	var status *statusError
	var protocol *sdk.Error
	var token *tokenError
	var address *dialguard.Error
	switch cause := context.Cause(ctx); {
	case refused != nil:
		e.Code = CodeCard
	case errors.Is(err, errTooLarge):
		e.Code = CodeTooLarge
	case errors.Is(cause, errIdle):
		e.Code, e.Message, e.Err = CodeTimeout, errIdle.Error(), cause
	case errors.As(err, &address):
		e.Code = CodeAddress
		e.Message = "the card leads to an address that is not allowed: " + address.Error() + "; WithTrustedOrigin or, for private networks, WithPrivateNetworks allows it"
	case errors.As(err, &token):
		e.Message = token.Error()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			e.Code = CodeTimeout
		case token.err == nil && token.status < 500:
			e.Code = CodeUnauthorized
		}
	case errors.Is(cause, context.DeadlineExceeded):
		e.Code, e.Message = CodeTimeout, "the time limit of one answer passed"
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*net.OpError)): // a limit of its own, which it names
		e.Code = CodeTimeout
	case errors.As(err, &status):
		e.Status = status.status
		if status.unauthorized() {
			e.Code = CodeUnauthorized
		} else if e.Status < 500 {
			e.Code = CodeProtocol
		}
	case errors.Is(err, sdk.ErrUnauthenticated), errors.Is(err, sdk.ErrUnauthorized):
		e.Code = CodeUnauthorized
	case errors.As(err, &protocol), errors.Is(err, errBadJSON), !isCall:
		e.Code = CodeProtocol
	}
	if text := e.Err.Error(); r.credentials.redact(text) != text {
		e.Err = &quietError{r.credentials.redact(text), e.Err}
	}
	e.Message = clip(r.credentials.redact(e.Message), 2000)
	return e
}
