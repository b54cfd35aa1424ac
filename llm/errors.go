package llm

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// ErrorCode classifies a failed model call.
type ErrorCode string

// The codes of [Error].
const (
	CodeUnreachable   ErrorCode = "unreachable"    // no connection, or it broke before an answer arrived
	CodeTimeout       ErrorCode = "timeout"        // one of the time limits passed
	CodeTruncated     ErrorCode = "truncated"      // the answer ended before its terminal signal
	CodeUnauthorized  ErrorCode = "unauthorized"   // 401, 403
	CodeNotFound      ErrorCode = "not_found"      // 404: wrong base URL or model name
	CodeBadRequest    ErrorCode = "bad_request"    // 400, 413, 422, and requests refused before sending
	CodeContextLength ErrorCode = "context_length" // the request is longer than the model's window
	CodeRateLimited   ErrorCode = "rate_limited"   // 429, 498; and 402 and the like, if the account has no credit left, which is not retryable
	CodeServer        ErrorCode = "server_error"   // 5xx, or an error object inside an answer
	CodeBadResponse   ErrorCode = "bad_response"   // the body does not follow the protocol
)

// Public returns a sentence about a failed model call that is safe to show to end users, or "" for a code other than
// those above. [Error.Message] is not safe for them: it names the endpoint and quotes its answer, which may contain a
// part of a key.
func (c ErrorCode) Public() string {
	switch c {
	case CodeUnreachable:
		return "the model cannot be reached"
	case CodeTimeout:
		return "the model took too long"
	case CodeTruncated, CodeServer, CodeBadResponse:
		return "the model's endpoint failed"
	case CodeUnauthorized, CodeNotFound, CodeBadRequest:
		return "the model's endpoint refused the request"
	case CodeContextLength:
		return "the conversation is too long for the model"
	case CodeRateLimited:
		return "the model's endpoint takes no more requests now"
	}
	return ""
}

// Error is a failed model call. Its text never contains the API key.
type Error struct {
	Code ErrorCode
	// Status is the HTTP status, 0 if there was none.
	Status int
	// Message says what happened and what to do about it.
	Message string
	// Retryable reports whether the same request may succeed later.
	Retryable bool
	// RetryAfter is how long the endpoint asked the client to wait; 0 if it did not.
	RetryAfter time.Duration
	// Err is the cause; nil if there is none.
	Err error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("model call failed (%s, HTTP %d): %s", e.Code, e.Status, e.Message)
	}
	return fmt.Sprintf("model call failed (%s): %s", e.Code, e.Message)
}

// Public returns the sentence of the code, for end users and for models.
func (e *Error) Public() string { return cmp.Or(e.Code.Public(), "the model failed") }

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether err contains an [*Error] that is worth another attempt.
func Retryable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Retryable
}
