package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"

	"github.com/agentarbor/arbor/a2a/internal/sdkjson"
	"github.com/agentarbor/arbor/server/access"
)

// Kind is a kind of error, with its code and name in each binding.
type Kind struct {
	Err    error
	Code   int    // of JSON-RPC
	Status int    // of HTTP
	Name   string // of google.rpc.Code
	Reason string // of google.rpc.ErrorInfo
}

// Kinds are the mappings of A2A 1.0, section 5.4, those of JSON-RPC 2.0, and mappings for cases that the specification
// leaves open. If several kinds have the same Name, a gRPC code without a reason means the first one.
var Kinds = []Kind{
	{sdk.ErrTaskNotFound, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"},
	{sdk.ErrUnsupportedOperation, -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"},
	{sdk.ErrTaskNotCancelable, -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"},
	{sdk.ErrPushNotificationNotSupported, -32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"},
	{sdk.ErrExtendedCardNotConfigured, -32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"},
	{sdk.ErrExtensionSupportRequired, -32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"},
	{sdk.ErrVersionNotSupported, -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"},
	{sdk.ErrInvalidParams, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"},
	{sdk.ErrUnsupportedContentType, -32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"},
	{sdk.ErrInvalidRequest, -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"},
	{sdk.ErrParseError, -32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"},
	{sdk.ErrMethodNotFound, -32601, 501, "UNIMPLEMENTED", "METHOD_NOT_FOUND"},
	{sdk.ErrUnauthenticated, -31401, 401, "UNAUTHENTICATED", "UNAUTHENTICATED"},
	{sdk.ErrUnauthorized, -31403, 403, "PERMISSION_DENIED", "UNAUTHORIZED"},
	{ErrTooManyCalls, -32000, 429, "RESOURCE_EXHAUSTED", "TOO_MANY_STREAMS"},
	{sdk.ErrInvalidAgentResponse, -32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"},
	{sdk.ErrServerError, -32000, 500, "INTERNAL", "SERVER_ERROR"},
	{sdk.ErrInternalError, -32603, 500, "INTERNAL", "INTERNAL_ERROR"},
	{context.DeadlineExceeded, -32603, 504, "DEADLINE_EXCEEDED", "INTERNAL_ERROR"},
	{context.Canceled, -32603, 499, "CANCELLED", "INTERNAL_ERROR"},
}

// internalKind is the kind of all errors without a mapping.
var internalKind = Kind{sdk.ErrInternalError, -32603, 500, "INTERNAL", "INTERNAL_ERROR"}

// HTTPError is an error with an HTTP status that A2A does not define. It keeps its status in JSON-RPC too, because
// proxies act upon it.
type HTTPError struct {
	Kind
	message string
	header  http.Header
}

func (e *HTTPError) Error() string { return e.message }
func (e *HTTPError) Unwrap() error { return e.Err }

// newHTTPError returns an error with this status and text for the client.
func newHTTPError(status, code int, name, reason, format string, a ...any) *HTTPError {
	return &HTTPError{Kind: Kind{Code: code, Status: status, Name: name, Reason: reason}, message: fmt.Sprintf(format, a...)}
}

func errMediaType(format string, a ...any) error {
	return &HTTPError{Kind{sdk.ErrUnsupportedContentType, -32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"}, fmt.Sprintf(format, a...), nil}
}

// refusal returns the error that a client receives for a refusal of package access.
func refusal(r *access.RefusedError) *HTTPError {
	kind := Kind{nil, -31403, r.Status, "PERMISSION_DENIED", "ORIGIN_NOT_ALLOWED"}
	switch r.Status {
	case http.StatusRequestEntityTooLarge:
		kind = Kind{nil, -32600, r.Status, "OUT_OF_RANGE", "REQUEST_TOO_LARGE"}
	case http.StatusRequestTimeout:
		kind = Kind{nil, -32600, r.Status, "DEADLINE_EXCEEDED", "REQUEST_TIMEOUT"}
	}
	return &HTTPError{kind, r.Message, nil}
}

// Failure is an error in the form that a client receives.
type Failure struct {
	Kind
	Message string
	Details []*errordetails.Typed
	// Hidden reports that the message is hidden from the client, and the cause should be logged.
	Hidden bool
	header http.Header
	http   bool // an error of HTTP, not of A2A
}

const (
	badRequestType = "type.googleapis.com/google.rpc.BadRequest"
	// errorDomain is the domain of reasons that A2A does not define.
	errorDomain = "github.com/agentarbor/arbor"
)

// classify returns the mapping that applies to an error: that of the first error in the chain with a mapping, in
// wrapping order. An error's own mapping takes precedence over that of its cause, which may be an error of another
// peer.
func classify(err error) (kind Kind, protocol *sdk.Error, own *HTTPError, found bool) {
	switch e := err.(type) {
	case nil:
		return Kind{}, nil, nil, false
	case *HTTPError:
		return e.Kind, nil, e, true
	case *access.RefusedError:
		own = refusal(e)
		return own.Kind, nil, own, true
	case *sdk.Error:
		kind, _, _, found = classify(e.Err)
		return kind, e, nil, found
	}
	for _, kind := range Kinds {
		if err == kind.Err {
			return kind, nil, nil, true
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return classify(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, cause := range e.Unwrap() {
			if kind, protocol, own, found = classify(cause); found {
				return kind, protocol, own, true
			}
		}
	}
	return Kind{}, nil, nil, false
}

// FailureOf maps an error to the form for clients. An error without a mapping becomes an internal error without its text,
// which may contain files, hosts and people. If task is "" or now is zero, the details omit it.
func FailureOf(err error, task sdk.TaskID, now time.Time) Failure {
	t := Failure{Kind: internalKind, Message: "internal error", Hidden: true}
	domain := sdk.ProtocolDomain
	kind, protocol, own, found := classify(err)
	if found {
		t.Kind = kind
	}
	switch {
	case own != nil:
		t.Message, t.header, t.http, t.Hidden = own.message, own.header, true, false
		if sdk.ErrorReason(own) != own.Reason {
			domain = errorDomain
		}
	case !found:
	case protocol != nil:
		t.Message, t.Hidden = protocol.Error(), false
	case kind.Err == context.DeadlineExceeded:
		t.Message = "the server exceeded a time limit"
	case kind.Status < 500 && kind.Err != context.Canceled || kind.Err == sdk.ErrMethodNotFound:
		t.Message, t.Hidden = err.Error(), false
	default:
		t.Message = kind.Err.Error()
	}
	meta := make(map[string]string)
	if !now.IsZero() {
		meta["timestamp"] = now.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if task != "" {
		meta["taskId"] = string(task)
	}
	if protocol != nil {
		for _, d := range protocol.TypedDetails {
			own, _ := d.Value["metadata"].(map[string]string) // of WithErrorInfoMeta, the only details that handlers add
			maps.Copy(meta, own)
		}
	}
	var bad *sdkjson.Violation
	if errors.As(err, &bad) && bad.Field != "" {
		t.Details = append(t.Details, errordetails.NewTyped(badRequestType, map[string]any{
			"fieldViolations": []any{map[string]any{"field": bad.Field, "description": bad.What}},
		}))
	}
	t.Details = append(t.Details, errordetails.NewErrorInfo(t.Reason, domain, meta))
	t.Message = strings.ToValidUTF8(t.Message, "\uFFFD")
	return t
}

// rpcStatus returns the HTTP status of a JSON-RPC response with the error: 200, unless the error is one of HTTP or
// about the caller's credentials.
func (t Failure) rpcStatus() int {
	if t.http || t.Err == sdk.ErrUnauthenticated || t.Err == sdk.ErrUnauthorized {
		return t.Status
	}
	return http.StatusOK
}

// rpcError is an error object of JSON-RPC 2.0, section 5.1, with details as in A2A 1.0, section 9.5.
type rpcError struct {
	Code    int                   `json:"code"`
	Message string                `json:"message"`
	Data    []*errordetails.Typed `json:"data,omitempty"`
}

// rpcAnswer is a response object of JSON-RPC 2.0, with a result or an error.
type rpcAnswer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

func (t Failure) rpc(id json.RawMessage) []byte {
	return mustEncode(rpcAnswer{JSONRPC: "2.0", ID: id, Error: &rpcError{t.Code, t.Message, t.Details}})
}

// rest returns the error as google.rpc.Status (A2A 1.0, section 11.6).
func (t Failure) rest() []byte {
	var body struct {
		Error struct {
			Code    int                   `json:"code"`
			Status  string                `json:"status"`
			Message string                `json:"message"`
			Details []*errordetails.Typed `json:"details"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Status, body.Error.Message, body.Error.Details = t.Status, t.Name, t.Message, t.Details
	return mustEncode(body)
}

// mustEncode encodes a value of strings, numbers and JSON, which cannot fail.
func mustEncode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}
