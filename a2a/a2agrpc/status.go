package a2agrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/agentarbor/arbor/a2a/a2aserver"
)

type mapping struct {
	err    error
	code   codes.Code
	reason string
}

// mappings is the table of A2A 1.0.1, section 5.4, and the general errors of section 3.3.2. The
// first row of a code is what a status without further details means.
var mappings = []mapping{
	{a2aserver.ErrTooManyCalls, codes.ResourceExhausted, "TOO_MANY_STREAMS"},
	{sdk.ErrTaskNotFound, codes.NotFound, "TASK_NOT_FOUND"},
	{sdk.ErrUnsupportedOperation, codes.FailedPrecondition, "UNSUPPORTED_OPERATION"},
	{sdk.ErrTaskNotCancelable, codes.FailedPrecondition, "TASK_NOT_CANCELABLE"},
	{sdk.ErrPushNotificationNotSupported, codes.FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
	{sdk.ErrExtendedCardNotConfigured, codes.FailedPrecondition, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"},
	{sdk.ErrExtensionSupportRequired, codes.FailedPrecondition, "EXTENSION_SUPPORT_REQUIRED"},
	{sdk.ErrVersionNotSupported, codes.FailedPrecondition, "VERSION_NOT_SUPPORTED"},
	{sdk.ErrInvalidParams, codes.InvalidArgument, "INVALID_PARAMS"},
	{sdk.ErrUnsupportedContentType, codes.InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED"},
	{sdk.ErrInvalidRequest, codes.InvalidArgument, "INVALID_REQUEST"},
	{sdk.ErrParseError, codes.InvalidArgument, "PARSE_ERROR"},
	{sdk.ErrMethodNotFound, codes.Unimplemented, "METHOD_NOT_FOUND"},
	{sdk.ErrUnauthenticated, codes.Unauthenticated, "UNAUTHENTICATED"},
	{sdk.ErrUnauthorized, codes.PermissionDenied, "UNAUTHORIZED"},
	{sdk.ErrInternalError, codes.Internal, "INTERNAL_ERROR"},
	{sdk.ErrInvalidAgentResponse, codes.Internal, "INVALID_AGENT_RESPONSE"},
	{sdk.ErrServerError, codes.Internal, "SERVER_ERROR"},
}

// toError makes the status of an error that a handler returned. Errors that the protocol does
// not name are not sent: they can hold what is not for the caller. The second result says
// whether err is one of them and should be logged.
func toError(err error) (st error, hidden bool) {
	switch {
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the call was canceled"), false
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the call's time has passed"), false
	}
	var own *sdk.Error
	worded := errors.As(err, &own)
	code, reason, message := codes.Internal, "INTERNAL_ERROR", sdk.ErrInternalError.Error()
	hidden = true
	for _, m := range mappings {
		if !errors.Is(err, m.err) {
			continue
		}
		code, reason, message = m.code, m.reason, err.Error()
		hidden = code == codes.Internal && !worded
		if hidden {
			message = m.err.Error()
		}
		break
	}
	info := &errdetails.ErrorInfo{Reason: reason, Domain: sdk.ProtocolDomain}
	details := []protoadapt.MessageV1{info}
	if worded && !hidden {
		for _, d := range own.TypedDetails {
			if d.TypeURL == errordetails.ErrorInfoType {
				info.Metadata = stringMap(d.Value["metadata"])
			}
		}
		if s, err := encode[structpb.Struct](own.Details); err == nil && len(own.Details) > 0 {
			details = append(details, s)
		}
	}
	with, err := status.New(code, utf8(message)).WithDetails(details...)
	if err != nil { // no details can be attached, the code still says what it is
		return status.Error(code, utf8(message)), hidden
	}
	return with.Err(), hidden
}

func stringMap(v any) map[string]string {
	m := make(map[string]string)
	switch v := v.(type) {
	case map[string]string:
		for k, s := range v {
			m[utf8(k)] = utf8(s)
		}
	case map[string]any:
		for k, s := range v {
			m[utf8(k)] = utf8(fmt.Sprint(s))
		}
	}
	return m
}

// fromError makes the protocol's error of a status that a peer answered. The reason decides, if
// there is one: in version 1.0.0 of the specification some errors had other codes. A status that
// has none, of a code by which servers fail in ways of their own, is no error of the protocol:
// it does not say how far they got.
func fromError(st *status.Status) error {
	var reason string
	var meta map[string]string
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == sdk.ProtocolDomain {
			reason, meta = info.GetReason(), info.GetMetadata()
		}
	}
	i := slices.IndexFunc(mappings, func(m mapping) bool { return m.reason == reason })
	if i < 0 && st.Code() != codes.Internal {
		i = slices.IndexFunc(mappings, func(m mapping) bool { return m.code == st.Code() })
	}
	if i < 0 {
		return fmt.Errorf("the server answered %s: %s", st.Code(), st.Message())
	}
	err := sdk.NewError(mappings[i].err, st.Message())
	if len(meta) > 0 {
		err = err.WithErrorInfoMeta(meta)
	}
	return err
}

// utf8 keeps text encodable: protobuf refuses strings that are no UTF-8.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
