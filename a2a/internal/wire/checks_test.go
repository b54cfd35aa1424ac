package wire

import (
	"context"
	"iter"
	"net/http"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
)

func TestStreamsOfOneCallerAreBounded(t *testing.T) {
	handler := &stub{events: func(ctx context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			if yield(echo("t"), nil) {
				<-ctx.Done()
			}
		}
	}}
	server := serveFront(t, Front{Handler: NewChecks(handler, nil, nil, nil, access.NewLimit(2, 3), nil),
		Auth: must.Get(bearerTokens(map[string]string{"a": "ann", "b": "bob"}))})
	subscribe := func(token string) (resp *http.Response, stop context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		req := must.Get(http.NewRequestWithContext(ctx, "GET", server.URL+"/tasks/t:subscribe", nil))
		req.Header.Set("Authorization", "Bearer "+token)
		resp = must.Get(http.DefaultTransport.RoundTrip(req))
		t.Cleanup(func() { resp.Body.Close() })
		return resp, cancel
	}
	first, stop := subscribe("a")
	require.Equal(t, 200, first.StatusCode)
	second, _ := subscribe("a")
	require.Equal(t, 200, second.StatusCode)

	for _, got := range []reply{
		call(t, "GET", server.URL+"/tasks/t:subscribe", "", "Authorization", "Bearer a"),
		call(t, "POST", server.URL+"/message:send", hello, "Authorization", "Bearer a"),
		call(t, "POST", server.URL+"/rpc", rpcBody("SendStreamingMessage", hello), "Authorization", "Bearer a"),
	} {
		require.Equal(t, 429, got.status, got.body)
		require.Equal(t, "1", got.header.Get("Retry-After"))
		require.Equal(t, "application/json", got.mediaType())
	}
	require.Equal(t, 200, call(t, "GET", server.URL+"/tasks/t", "", "Authorization", "Bearer a").status, "short calls are not counted")
	other, _ := subscribe("b")
	require.Equal(t, 200, other.StatusCode, "others have their own")

	got := call(t, "POST", server.URL+"/message:send", hello, "Authorization", "Bearer b")
	require.Equal(t, 429, got.status, got.body)
	require.Contains(t, got.body, "more than 3 calls of all callers")

	stop() // a stream that ends makes room
	must.Wait(t, func() bool {
		return call(t, "POST", server.URL+"/message:send", hello, "Authorization", "Bearer a").status == 200
	})
}

func TestOpenCallsAreForgotten(t *testing.T) {
	c := NewChecks(&stub{events: func(context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) { panic("x") }
	}}, nil, nil, nil, access.NewLimit(1, 0), nil)
	req := &sdk.SubscribeToTaskRequest{ID: "t"}
	require.Panics(t, func() {
		for range c.SubscribeToTask(withCaller(t.Context(), "ann"), req) {
		}
	})
	require.NoError(t, c.enter(withCaller(t.Context(), "ann")))
}

// Clients of the SDK send the tenant of a context to peers that have none, and a turn keeps the values of its context.
func TestTenantOfARequestIsNotPassedOn(t *testing.T) {
	c := NewChecks(&stub{events: func(ctx context.Context) iter.Seq2[sdk.Event, error] {
		tenant, _ := sdk.TenantFrom(ctx)
		require.Empty(t, tenant)
		return func(yield func(sdk.Event, error) bool) { yield(echo("t"), nil) }
	}}, nil, nil, []string{"sales"}, nil, nil)
	for _, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: "t", Tenant: "sales"}) {
		require.NoError(t, err)
	}
}
