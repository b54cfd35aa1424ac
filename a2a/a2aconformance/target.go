package a2aconformance

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
)

// Target is a server under test.
//
// Its agent must obey the first word of a message:
//
//   - echo TEXT: the task is completed with one artifact, whose text is TEXT. Streamed,
//     it may come in pieces.
//   - ask: the task asks for input. The message yes on the same task completes it.
//   - wait: the task says begun in an artifact, works until Release is called, and is then
//     completed. It can be canceled.
//   - fail: the task fails.
type Target struct {
	// Bindings are the ways to reach the server, at least one.
	Bindings []Binding
	// Release lets all tasks that wait come to their end, those that will wait later
	// included, until Hold is called.
	Release func()
	// Hold has tasks wait again.
	Hold func()
	// Restart ends the server and starts it anew with what it has stored, at the same
	// addresses. nil: it is not tested.
	Restart func()
	// Callers are two callers that the server tells apart, for Request.Caller, and a
	// caller that it refuses. Empty: it lets everybody in, and is not tested for that.
	Callers []string
	// Stranger is a caller whose credentials are wrong.
	Stranger string
	// Push: the server has push notifications, and lets webhooks be on loopback without
	// TLS.
	Push bool
	// ExtendedCard: the server has an extended card.
	ExtendedCard bool
	// BadMediaType is a media type that the agent refuses in parts of messages; "" is
	// not tested.
	BadMediaType string
	// CardURL is the address of the card; "" is not tested.
	CardURL string
}

// Binding is one way to reach a server.
type Binding struct {
	// Name is the binding as cards name it.
	Name string
	// Call makes a call. The error is an *Error if the server answered with one.
	Call func(ctx context.Context, r Request) (json.RawMessage, error)
	// Stream makes a call that is answered with a stream.
	Stream func(ctx context.Context, r Request) iter.Seq2[json.RawMessage, error]
	// Code returns the code of an error of the protocol in this binding.
	Code func(reason string) int
	// Malformed are requests that are none in this binding.
	Malformed []Malformed
	// Absence says that an answer shows which fields it leaves out. Bindings of protocol
	// buffers do not show it.
	Absence bool
}

// Request is a call.
type Request struct {
	// Operation is the operation as JSON-RPC and gRPC name it, such as SendMessage.
	Operation string
	// Params are the fields of the request message, with the names that JSON has.
	Params map[string]any
	// Version is what A2A-Version says; "" is 1.0.
	Version string
	// Caller is who calls; "" is the target's first caller.
	Caller string
	// Extensions are the extensions that are asked for.
	Extensions []string
}

// Malformed is a request that is none, and the code of the error that it must be answered
// with.
type Malformed struct {
	Name string
	Code int
	Do   func(ctx context.Context, caller string) error
}

// Error is an error as a server told it.
type Error struct {
	// Code is the code of JSON-RPC, of HTTP, or of gRPC.
	Code int
	// Reason is the reason of the google.rpc.ErrorInfo in its details, if any, and Domain
	// that info's domain.
	Reason, Domain string
	Message        string
	// InStream says that the error was an event of a stream of server-sent events.
	InStream bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("code %d, reason %q: %s", e.Code, e.Reason, e.Message)
}

// Reasons of errors, as the specification names those of A2A (section 5.4), and names of
// those that every binding has of its own.
const (
	taskNotFound         = "TASK_NOT_FOUND"
	taskNotCancelable    = "TASK_NOT_CANCELABLE"
	pushNotSupported     = "PUSH_NOTIFICATION_NOT_SUPPORTED"
	unsupportedOperation = "UNSUPPORTED_OPERATION"
	contentType          = "CONTENT_TYPE_NOT_SUPPORTED"
	versionNotSupported  = "VERSION_NOT_SUPPORTED"

	invalidParams = "invalid params"
)

// codes are those of JSON-RPC, HTTP and gRPC.
var codes = map[string][3]int{
	taskNotFound:         {-32001, 404, 5},
	taskNotCancelable:    {-32002, 400, 9},
	pushNotSupported:     {-32003, 400, 9},
	unsupportedOperation: {-32004, 400, 9},
	contentType:          {-32005, 400, 3},
	versionNotSupported:  {-32009, 400, 9},
	invalidParams:        {-32602, 400, 3},
}

// codeJSONRPC returns the code of JSON-RPC for an error's reason.
func codeJSONRPC(reason string) int { return codes[reason][0] }

// codeHTTP returns the HTTP status for an error's reason.
func codeHTTP(reason string) int { return codes[reason][1] }

// CodeGRPC returns the gRPC status for an error's reason.
func CodeGRPC(reason string) int { return codes[reason][2] }
