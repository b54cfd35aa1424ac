package wire

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
)

func slowEvents(n int, pause time.Duration) func(context.Context) iter.Seq2[sdk.Event, error] {
	return func(ctx context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			for range n {
				select {
				case <-ctx.Done():
					yield(nil, context.Cause(ctx))
					return
				case <-time.After(pause):
				}
				if !yield(update("word"), nil) {
					return
				}
			}
		}
	}
}

func TestPaths(t *testing.T) {
	tests := []struct {
		method, path string
		status       int
		allow        string // of 405
		seen         string // the request, as JSON
	}{
		{"POST", "/rpc", 200, "", `{"id":"rpc"}`},
		{"POST", "/rpc/", 200, "", `{"id":"rpc"}`},
		{"POST", "/rpc//", 404, "", ""},
		{"POST", "/rpc/x", 404, "", ""},
		{"GET", "/rpc", 405, "POST, OPTIONS", ""},
		{"PUT", "/rpc/", 405, "POST, OPTIONS", ""},
		{"POST", "/sales/rpc", 200, "", `{"tenant":"sales","id":"rpc"}`},
		{"POST", "/nobody/rpc", 404, "", ""},
		{"GET", "/", 404, "", ""},
		{"GET", "", 404, "", ""},
		{"GET", "/unknown", 404, "", ""},
		{"POST", "/v1/message:send", 404, "", ""},
		{"GET", "/tasks", 200, "", `{}`},
		{"HEAD", "/tasks", 200, "", `{}`},
		{"GET", "/tasks/", 404, "", ""},
		{"POST", "/tasks", 405, "GET, HEAD, OPTIONS", ""},
		{"GET", "/sales/tasks", 200, "", `{"tenant":"sales"}`},
		{"GET", "/sales/sales/tasks", 404, "", ""},
		{"GET", "/tasks?tenant=sales", 200, "", `{"tenant":"sales"}`},
		{"GET", "/sales/tasks?tenant=sales", 200, "", `{"tenant":"sales"}`},
		{"GET", "/sales/tasks?tenant=other", 400, "", ""},
		{"GET", "/tasks/1.2-a_b~c", 200, "", `{"id":"1.2-a_b~c"}`},
		{"GET", "/tasks/t.c.d", 200, "", `{"id":"t.c.d"}`},
		{"GET", "/tasks/a%2Fb", 200, "", `{"id":"a/b"}`},
		{"GET", "/tasks/%2e%2e", 200, "", `{"id":".."}`},
		{"GET", "/tasks/a%20b%25", 200, "", `{"id":"a b%"}`},
		{"GET", "/tasks/%C3%A4", 200, "", `{"id":"ä"}`},
		{"GET", "/tasks/a:b", 200, "", `{"id":"a:b"}`},
		{"GET", "/tasks/a%3Ab", 200, "", `{"id":"a:b"}`},
		{"DELETE", "/tasks/a", 405, "GET, HEAD, OPTIONS", ""},
		{"POST", "/tasks/a", 405, "GET, HEAD, OPTIONS", ""},
		{"POST", "/tasks/a:b", 405, "GET, HEAD, OPTIONS", ""},
		{"POST", "/tasks/a:cancel", 200, "", `{"id":"a"}`},
		{"POST", "/tasks/a%3Acancel", 200, "", `{"id":"a"}`},
		{"POST", "/tasks/a:b:cancel", 200, "", `{"id":"a:b"}`},
		{"POST", "/tasks/a%3Asubscribe:cancel", 200, "", `{"id":"a:subscribe"}`},
		{"GET", "/tasks/a:cancel", 405, "POST, OPTIONS", ""},
		{"POST", "/tasks/:cancel", 404, "", ""},
		{"POST", "/tasks/a:subscribe", 200, "", `{"id":"a"}`},
		{"GET", "/tasks/a:subscribe", 200, "", `{"id":"a"}`},
		{"HEAD", "/tasks/a:subscribe", 405, "GET, POST, OPTIONS", ""},
		{"GET", "/sales/tasks/t.c%2Fd:subscribe", 200, "", `{"tenant":"sales","id":"t.c/d"}`},
		{"GET", "/tasks/a/b", 404, "", ""},
		{"GET", "/tasks/a/pushNotificationConfigs", 200, "", `{"taskId":"a"}`},
		{"GET", "/tasks/a+b/pushNotificationConfigs", 200, "", `{"taskId":"a+b"}`},
		{"PUT", "/tasks/a/pushNotificationConfigs", 405, "GET, HEAD, POST, OPTIONS", ""},
		{"GET", "/tasks/a%2Fb/pushNotificationConfigs/c%2Fd", 200, "", `{"taskId":"a/b","id":"c/d"}`},
		{"DELETE", "/tasks/a/pushNotificationConfigs/b", 200, "", `{"taskId":"a","id":"b"}`},
		{"POST", "/tasks/a/pushNotificationConfigs/b", 405, "DELETE, GET, HEAD, OPTIONS", ""},
		{"GET", "/tasks/a/pushNotificationConfigs/", 404, "", ""},
		{"GET", "/tasks/a/pushNotificationConfigs/b/c", 404, "", ""},
		{"GET", "/extendedAgentCard", 200, "", `{}`},
		{"GET", "/sales/extendedAgentCard", 200, "", `{"tenant":"sales"}`},
		{"GET", "/message:send", 405, "POST, OPTIONS", ""},
		{"TRACE", "/message:send", 405, "POST, OPTIONS", ""},
		{"GET", "/.well-known/agent-card.json", 200, "", ""},
		{"HEAD", "/.well-known/agent-card.json", 200, "", ""},
		{"POST", "/.well-known/agent-card.json", 405, "GET, HEAD, OPTIONS", ""},
		{"GET", "/sales/.well-known/agent-card.json", 200, "", ""},
		{"GET", "/nobody/.well-known/agent-card.json", 404, "", ""},
		{"GET", "/.well-known/agent.json", 404, "", ""},
	}
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler, Tenants: []string{"sales"}})
	for _, test := range tests {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			handler.last = nil
			body := ""
			if strings.Contains(test.path, "/rpc") {
				body = rpcBody("GetTask", `{"id":"rpc"}`)
			}
			got := call(t, test.method, server.URL+test.path, body)
			require.Equal(t, test.status, got.status, got.body)
			require.Equal(t, test.allow, got.header.Get("Allow"))
			if test.status >= 400 {
				require.Equal(t, "no-store", got.header.Get("Cache-Control"))
			}
			if test.method != "HEAD" {
				require.NotEmpty(t, got.body)
				if got.mediaType() != "text/event-stream" {
					require.Equal(t, "application/json", got.mediaType())
				}
			} else {
				require.Empty(t, got.body)
			}
			if test.seen == "" {
				require.Nil(t, handler.seen())
				return
			}
			// Empty fields that the SDK encodes are left out of the table.
			seen := strings.NewReplacer(`,"url":""`, "").Replace(requestJSON(t, handler.seen()))
			require.JSONEq(t, test.seen, seen)
		})
	}
	require.Contains(t, call(t, "GET", server.URL+"/sales/.well-known/agent-card.json", "").body, "sales")
}

func TestTheOldPathOfTheCardIsThereForOldClients(t *testing.T) {
	server := serveFront(t, Front{Legacy: testCompat()})
	require.Equal(t, 200, call(t, "GET", server.URL+"/.well-known/agent.json", "").status)
}

func TestOptions(t *testing.T) {
	server := serveFront(t, Front{Auth: refuseAll{}})
	got := call(t, "OPTIONS", server.URL+"/tasks/t", "")
	require.Equal(t, 204, got.status)
	require.Equal(t, "GET, HEAD, OPTIONS", got.header.Get("Allow"))
	require.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, 404, call(t, "OPTIONS", server.URL+"/x", "").status)
}

// refuseAll is an authenticator that accepts nobody.
type refuseAll struct{}

func (refuseAll) Authenticate(context.Context, access.Credentials) (access.User, error) {
	return access.User{}, access.ErrNoCredentials
}
func (refuseAll) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme { return nil }

// The front works below a path that its user gives it.
func TestBelowAPrefix(t *testing.T) {
	handler := &stub{}
	f := Front{Handler: handler, Card: func(http.ResponseWriter, *http.Request, string) {}}
	h := must.Get(New(f))
	mux := http.NewServeMux()
	mux.Handle("/agents/", http.StripPrefix("/agents", h))
	server := listen(t, mux)
	require.Equal(t, 200, call(t, "GET", server.URL+"/agents/tasks/a%2Fb", "").status)
	require.Equal(t, &sdk.GetTaskRequest{ID: "a/b"}, handler.seen())
}
