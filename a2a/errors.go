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
	"github.com/agentarbor/arbor/internal/visible"
)

// ErrorCode classifies an error of a remote agent.
type ErrorCode string

// The codes of [Error]. They are also the codes of error events in the log.
const (
	CodeCard          ErrorCode = "remote_card"           // the card cannot be fetched, or offers no supported interface
	CodeUnreachable   ErrorCode = "remote_unreachable"    // no connection, or the connection broke
	CodeAddress       ErrorCode = "remote_address"        // the card leads to an address that is not allowed
	CodeUnauthorized  ErrorCode = "remote_unauthorized"   // credentials are missing or refused
	CodeTimeout       ErrorCode = "remote_timeout"        // a time limit was exceeded
	CodeTooLarge      ErrorCode = "remote_too_large"      // the response exceeds the size limit
	CodeProtocol      ErrorCode = "remote_protocol"       // a protocol error, or an answer that violates the protocol
	CodeTaskFailed    ErrorCode = "remote_task_failed"    // the task ended as failed
	CodeTaskRejected  ErrorCode = "remote_task_rejected"  // the remote agent refused the task
	CodeTaskCanceled  ErrorCode = "remote_task_canceled"  // another party canceled the task
	CodeNothingToSend ErrorCode = "remote_nothing_to_say" // the conversation has no new messages
)

// Error is an error of a remote agent. Its text contains neither credentials nor the query of a URL.
type Error struct {
	Agent string
	// Card is the URL of the agent's card, without query and credentials. It is "" if the agent has no card.
	Card string
	Code ErrorCode
	// Status is the HTTP status, or 0 if there was none.
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
	hint := ""
	switch e.Code {
	case CodeUnauthorized:
		hint = "; are the credentials for this agent right?"
	case CodeUnreachable:
		hint = "; does the agent run, and is its address right?"
	}
	return fmt.Sprintf("remote agent %s (%s): %s%s", who, code, e.Message, hint)
}

// Public returns the error's text for end users and models: without the agent's address, and without the message of a
// connection error, which contains addresses too.
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
	errBadJSON  = errors.New("the response's Content-Type is JSON, but its body is not")
)

// statusError is a response with an HTTP status other than success.
type statusError struct {
	status  int
	message string // the peer's message, if any
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

// verifyError reports that the developer's verifier refused a card.
type verifyError struct{ err error }

func (e *verifyError) Error() string { return "the card verifier refused the card: " + e.err.Error() }

func (e *verifyError) Unwrap() error { return e.err }

// quietError replaces an error whose text contains credentials.
type quietError struct {
	text string
	err  error
}

func (e *quietError) Error() string { return e.text }

// Is lets errors.Is match the wrapped error. There is no Unwrap, so that errors.As cannot extract it.
func (e *quietError) Is(target error) bool { return errors.Is(e.err, target) }

func (r *remote) fault(code ErrorCode, message string) *Error {
	message = visible.Cut(r.credentials.redact(strings.ToValidUTF8(message, "\uFFFD")), 2000)
	return &Error{Agent: r.name, Card: r.cards.displayURL, Code: code, Message: message}
}

// classify returns the Error for a failed call. It removes the URLs that the HTTP client adds to its errors, and
// credentials that a peer repeats.
func (r *remote) classify(ctx context.Context, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		if own.Agent != "" {
			return own
		}
		e := *own // from a binding, which does not know the agent
		e.Agent, e.Card = r.name, r.cards.displayURL
		return &e
	}
	e := &Error{Agent: r.name, Card: r.cards.displayURL, Code: CodeUnreachable, Err: err}
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
	case errors.Is(err, errIdle):
		e.Code = CodeTimeout
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
		e.Code, e.Message = CodeTimeout, "the remote agent did not answer within the time limit"
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*net.OpError)): // another limit, which the error names
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
	e.Message = visible.Cut(r.credentials.redact(e.Message), 2000)
	return e
}
