package wire

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// legacyName is the name that an operation has in version 0.3.
func legacyName(version, name string) string {
	if version != "0.3" {
		return name
	}
	return map[string]string{"GetTask": "tasks/get", "SubscribeToTask": "tasks/resubscribe", "SendMessage": "message/send", "SendStreamingMessage": "message/stream"}[name]
}

// decodeAlone decodes parameters without a path.
func decodeAlone[P any](doc []byte) (*P, error) {
	return decode[P](&exchange{}, doc)
}

// testCompat stands for the binding of version 0.3. Its parameters are those of 1.0; only the names of some operations
// are other ones, and what it answers says that it is legacy.
func testCompat() *Legacy {
	said := func(v any) map[string]any { return map[string]any{"legacy": true, "answer": v} }
	return &Legacy{
		Methods: map[string]func(a2asrv.RequestHandler, context.Context, json.RawMessage) (any, error){
			"tasks/get": func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) (any, error) {
				req, err := decodeAlone[sdk.GetTaskRequest](params)
				if err != nil {
					return nil, err
				}
				task, err := h.GetTask(ctx, req)
				return said(task), err
			},
			"message/send": func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) (any, error) {
				req, err := decodeAlone[sdk.SendMessageRequest](params)
				if err != nil {
					return nil, err
				}
				result, err := h.SendMessage(ctx, req)
				return said(result), err
			},
		},
		Streams: map[string]func(a2asrv.RequestHandler, context.Context, json.RawMessage) iter.Seq2[sdk.Event, error]{
			"tasks/resubscribe": func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) iter.Seq2[sdk.Event, error] {
				return h.SubscribeToTask(ctx, must.Get(decodeAlone[sdk.SubscribeToTaskRequest](params)))
			},
			"message/stream": func(h a2asrv.RequestHandler, ctx context.Context, params json.RawMessage) iter.Seq2[sdk.Event, error] {
				return h.SendStreamingMessage(ctx, must.Get(decodeAlone[sdk.SendMessageRequest](params)))
			},
		},
		Event: func(e sdk.Event) (any, error) { return said(e), nil },
	}
}

func TestVersionIsNegotiated(t *testing.T) {
	const refused, modern, legacy = "refused", "1.0", "0.3"
	tests := []struct {
		name          string
		header, query string
		plain         string // JSON-RPC without compat
		compat        string // JSON-RPC with compat
		rest          string // HTTP+JSON, with or without compat
	}{
		{"none", "", "", modern, legacy, modern},
		{"1.0", "1.0", "", modern, modern, modern},
		{"a patch number does not matter", "1.0.7", "", modern, modern, modern},
		{"as a parameter", "", "?A2A-Version=1.0", modern, modern, modern},
		{"as a parameter in lower case", "", "?a2a-version=1.0", modern, modern, modern},
		{"both say the same", "1.0", "?A2A-Version=1.0", modern, modern, modern},
		{"both differ", "1.0", "?A2A-Version=0.3", refused, refused, refused},
		{"0.3", "0.3", "", refused, legacy, refused},
		{"0.3.0", "0.3.0", "", refused, legacy, refused},
		{"a later minor version", "1.1", "", refused, refused, refused},
		{"a later major version", "99.0", "", refused, refused, refused},
		{"an unknown parameter", "", "?A2A-Version=2.0", refused, refused, refused},
		{"no version", "latest", "", refused, refused, refused},
		{"no minor version", "1", "", refused, refused, refused},
		{"too many numbers", "1.0.0.0", "", refused, refused, refused},
		{"spaces", "  1.0 ", "", modern, modern, modern},
	}
	plain := serveFront(t, Front{})
	compat := serveFront(t, Front{Legacy: testCompat()})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, rpc := range []struct{ want, url string }{{test.plain, plain.URL}, {test.compat, compat.URL}} {
				got := call(t, "POST", rpc.url+"/rpc"+test.query, rpcBody(legacyName(rpc.want, "GetTask"), `{"id":"t"}`), "A2A-Version", test.header)
				require.Equal(t, 200, got.status)
				require.Equal(t, rpc.want == legacy, strings.Contains(got.body, `"legacy":true`))
				if rpc.want != refused {
					require.Contains(t, got.body, `"state":"TASK_STATE_COMPLETED"`)
					continue
				}
				require.Equal(t, -32009, got.code(t), got.body)
				require.Contains(t, got.body, `"id":1`)
				reason, metadata := got.reason(t)
				require.Equal(t, "VERSION_NOT_SUPPORTED", reason)
				require.Contains(t, metadata["supportedVersions"], "1.0")
			}
			for _, url := range []string{plain.URL, compat.URL} {
				got := call(t, "GET", url+"/tasks/t"+test.query, "", "A2A-Version", test.header)
				if test.rest == modern {
					require.Equal(t, 200, got.status, got.body)
					continue
				}
				require.Equal(t, 400, got.status, got.body)
				reason, metadata := got.reason(t)
				require.Equal(t, "VERSION_NOT_SUPPORTED", reason)
				require.Equal(t, "1.0", metadata["supportedVersions"])
				require.Contains(t, got.body, `"FAILED_PRECONDITION"`)
			}
		})
	}
}

func TestCompatServesTenantsOfThePath(t *testing.T) {
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler, Legacy: testCompat(), Tenants: []string{"sales"}})
	got := call(t, "POST", server.URL+"/sales/rpc", rpcBody("tasks/get", `{"id":"t"}`))
	require.Contains(t, got.body, `"result"`)
	require.Contains(t, requestJSON(t, handler.seen()), `"tenant":"sales"`)
}

func TestCompatDoesNotTellInternalErrors(t *testing.T) {
	server := serveFront(t, Front{Handler: &stub{err: errSecretive}, Legacy: testCompat()})
	for _, method := range []string{"tasks/get", "tasks/resubscribe"} {
		got := call(t, "POST", server.URL+"/rpc", rpcBody(method, `{"id":"t"}`))
		require.Contains(t, got.body, `"code":-32603`)
		require.NotContains(t, got.body, "hunter2")
	}
}

func TestNamesOf10InRequestsOf03(t *testing.T) {
	server := serveFront(t, Front{Legacy: testCompat()})
	got := call(t, "POST", server.URL+"/rpc", rpcBody("GetTask", `{"id":"t"}`))
	require.Equal(t, -32601, got.code(t))
	require.Contains(t, got.body, "A2A-Version: 1.0")
	got = call(t, "POST", server.URL+"/rpc", rpcBody("tasks/nothing", `{"id":"t"}`))
	require.Equal(t, -32601, got.code(t))
	require.NotContains(t, got.body, "A2A-Version: 1.0")
}

func TestThe03BindingDoesNotSeeCredentials(t *testing.T) {
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler, Legacy: testCompat(), Auth: must.Get(apiKeys("header", "X-API-Key", map[string]string{"k": "ann"}))})
	call(t, "POST", server.URL+"/rpc", rpcBody("tasks/get", `{"id":"t"}`), "X-API-Key", "k", "Authorization", "Bearer k", "Cookie", "k=k", "X-A2A-Extensions", "urn:a")
	seen, _ := a2asrv.CallContextFrom(handler.ctx)
	require.Equal(t, []string{"urn:a"}, seen.Extensions().RequestedURIs())
	version, _ := seen.ServiceParams().Get("A2A-Version")
	require.Equal(t, []string{"0.3"}, version)
	for _, name := range []string{"X-API-Key", "Authorization", "Cookie"} {
		_, there := seen.ServiceParams().Get(name)
		require.False(t, there, name)
	}
}

// What 0.3 has no words for is left out of errors, and the status of HTTP is that of a success.
func TestErrorsOf03HaveNoDetails(t *testing.T) {
	for _, err := range []error{sdk.ErrTaskNotFound, sdk.ErrUnauthorized} {
		server := serveFront(t, Front{Handler: &stub{err: err}, Legacy: testCompat()})
		got := call(t, "POST", server.URL+"/rpc", rpcBody("tasks/get", `{"id":"t"}`))
		require.Equal(t, 200, got.status)
		require.NotContains(t, got.body, `"data"`)
		require.Contains(t, got.body, err.Error())
	}
}
