package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

var errSecretive = errors.New("open /srv/hunter2: permission denied")

func requestJSON(t *testing.T, v any) string {
	t.Helper()
	data := must.Get(json.Marshal(v))
	return string(data)
}

// The table is that of A2A 1.0, section 5.4, with the errors of JSON-RPC and of authentication.
func TestErrorsInBothBindings(t *testing.T) {
	tests := []struct {
		err          error
		code         int
		rpcStatus    int
		status       int
		name, reason string
	}{
		{sdk.ErrTaskNotFound, -32001, 200, 404, "NOT_FOUND", "TASK_NOT_FOUND"},
		{sdk.ErrTaskNotCancelable, -32002, 200, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"},
		{sdk.ErrPushNotificationNotSupported, -32003, 200, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"},
		{sdk.ErrUnsupportedOperation, -32004, 200, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"},
		{sdk.ErrUnsupportedContentType, -32005, 200, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"},
		{sdk.ErrInvalidAgentResponse, -32006, 200, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"},
		{sdk.ErrExtendedCardNotConfigured, -32007, 200, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"},
		{sdk.ErrExtensionSupportRequired, -32008, 200, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"},
		{sdk.ErrVersionNotSupported, -32009, 200, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"},
		{sdk.ErrInvalidParams, -32602, 200, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"},
		{sdk.ErrInvalidRequest, -32600, 200, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"},
		{sdk.ErrParseError, -32700, 200, 400, "INVALID_ARGUMENT", "PARSE_ERROR"},
		{sdk.ErrInternalError, -32603, 200, 500, "INTERNAL", "INTERNAL_ERROR"},
		{errSecretive, -32603, 200, 500, "INTERNAL", "INTERNAL_ERROR"},
		{sdk.ErrUnauthenticated, -31401, 401, 401, "UNAUTHENTICATED", "UNAUTHENTICATED"},
		{sdk.ErrUnauthorized, -31403, 403, 403, "PERMISSION_DENIED", "UNAUTHORIZED"},
	}
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler})
	for _, test := range tests {
		for form, err := range map[string]error{
			"wrapped": fmt.Errorf("%w (while looking)", test.err),
			"made":    sdk.NewError(test.err, "in other words").WithErrorInfoMeta(map[string]string{"hint": "look"}),
		} {
			t.Run(test.reason+" "+form, func(t *testing.T) {
				handler.err = err
				for _, method := range []string{"GetTask", "SubscribeToTask"} {
					got := call(t, "POST", server.URL+"/rpc", rpcBody(method, `{"id":"t"}`))
					require.Equal(t, test.rpcStatus, got.status)
					require.Equal(t, "application/json", got.mediaType())
					require.Equal(t, test.code, got.code(t))
					reason, metadata := got.reason(t)
					require.Equal(t, test.reason, reason)
					require.Equal(t, "t", metadata["taskId"])
					require.Contains(t, got.body, `"id":1`)
					require.Equal(t, form == "made", metadata["hint"] == "look")
					require.Equal(t, form == "wrapped" && test.status < 500, strings.Contains(got.body, "(while looking)"), got.body)
					require.Equal(t, "no-store", got.header.Get("Cache-Control"))
				}
				for _, path := range []string{"/tasks/t", "/tasks/t:subscribe"} {
					got := call(t, "GET", server.URL+path, "")
					require.Equal(t, test.status, got.status, got.body)
					require.Equal(t, "application/json", got.mediaType())
					var body struct {
						Error struct {
							Code            int
							Status, Message string
						}
					}
					require.NoError(t, json.Unmarshal([]byte(got.body), &body))
					require.Equal(t, test.status, body.Error.Code)
					require.Equal(t, test.name, body.Error.Status)
					require.NotEmpty(t, body.Error.Message)
					require.NotContains(t, got.body, "hunter2")
					reason, metadata := got.reason(t)
					require.Equal(t, test.reason, reason)
					require.Equal(t, "t", metadata["taskId"])
				}
			})
		}
	}
}

// The SDK's own mapping takes any of several by chance.
func TestWhatAnErrorSaysComesBeforeItsCause(t *testing.T) {
	peer := sdk.NewError(sdk.ErrTaskNotFound, "the peer's words").WithDetails(map[string]any{"of": "the peer"})
	for _, test := range []struct {
		err     error
		code    int
		message string
	}{
		{fmt.Errorf("%w: a peer said: %w", sdk.ErrInvalidAgentResponse, peer), -32006, "invalid agent response"},
		{sdk.NewError(fmt.Errorf("%w: a peer said: %w", sdk.ErrInvalidAgentResponse, sdk.ErrInvalidParams), "in our words"), -32006, "in our words"},
		{sdk.NewError(fmt.Errorf("%w: a peer said: %w", sdk.ErrInvalidAgentResponse, peer), "in our words"), -32006, "in our words"},
		{fmt.Errorf("a step: %w", peer), -32001, "the peer's words"},
		{fmt.Errorf("%w: %w", sdk.ErrInvalidParams, sdk.ErrParseError), -32602, "invalid params: parse error"},
		{fmt.Errorf("%w: %w", sdk.ErrParseError, sdk.ErrInvalidParams), -32700, "parse error: invalid params"},
		{errors.Join(errSecretive, sdk.ErrUnsupportedOperation), -32004, errSecretive.Error() + "\n" + sdk.ErrUnsupportedOperation.Error()},
		{fmt.Errorf("%w: %w", sdk.ErrInternalError, errSecretive), -32603, "internal error"},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, errSecretive), -32603, "the server exceeded a time limit"},
		{fmt.Errorf("%w: %w", context.Canceled, errSecretive), -32603, "context canceled"},
		{sdk.NewError(nil, "of no class"), -32603, "internal error"},
		{&sdk.Error{}, -32603, "internal error"},
	} {
		for range 20 {
			got := FailureOf(test.err, "", testTime)
			require.Equal(t, test.code, got.Code, test.err)
			require.Equal(t, test.message, got.Message)
		}
	}
	got := FailureOf(fmt.Errorf("%w: a peer said: %w", sdk.ErrInvalidAgentResponse, peer), "", testTime)
	require.NotContains(t, requestJSON(t, got.Details), "the peer")
}

func TestFieldsThatAreWrongAreNamed(t *testing.T) {
	server := serveFront(t, Front{})
	for _, got := range []reply{
		call(t, "GET", server.URL+"/tasks?pageSize=0", ""),
		call(t, "POST", server.URL+"/rpc", rpcBody("ListTasks", `{"pageSize":101}`)),
	} {
		require.Contains(t, got.body, "google.rpc.BadRequest")
		require.Contains(t, got.body, `"field":"pageSize"`)
	}
}
