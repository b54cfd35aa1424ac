package wire

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/access"
)

// Other bindings have the same checks, because they stand before the handler.
func TestChecksOfOtherBindings(t *testing.T) {
	handler := &stub{}
	c := NewChecks(handler, []string{"text/plain"}, []string{"text/plain"}, []string{"sales"}, nil, nil)
	message := func(change func(*sdk.SendMessageRequest)) *sdk.SendMessageRequest {
		req := &sdk.SendMessageRequest{Message: &sdk.Message{ID: "m", Role: sdk.MessageRoleUser, Parts: sdk.ContentParts{sdk.NewTextPart("x")}}}
		change(req)
		return req
	}
	minus := -1
	for name, test := range map[string]struct {
		req  *sdk.SendMessageRequest
		want error
	}{
		"valid":       {message(func(*sdk.SendMessageRequest) {}), nil},
		"tenant":      {message(func(r *sdk.SendMessageRequest) { r.Tenant = "sales" }), nil},
		"no tenant":   {message(func(r *sdk.SendMessageRequest) { r.Tenant = "x" }), sdk.ErrInvalidParams},
		"empty":       {&sdk.SendMessageRequest{}, sdk.ErrInvalidParams},
		"long id":     {message(func(r *sdk.SendMessageRequest) { r.Message.ID = strings.Repeat("x", 1025) }), sdk.ErrInvalidParams},
		"longest id":  {message(func(r *sdk.SendMessageRequest) { r.Message.ID = strings.Repeat("x", 1024) }), nil},
		"no content":  {message(func(r *sdk.SendMessageRequest) { r.Message.Parts[0].Content = nil }), sdk.ErrInvalidParams},
		"nil part":    {message(func(r *sdk.SendMessageRequest) { r.Message.Parts[0] = nil }), sdk.ErrInvalidParams},
		"history":     {message(func(r *sdk.SendMessageRequest) { r.Config = &sdk.SendMessageConfig{HistoryLength: &minus} }), sdk.ErrInvalidParams},
		"input modes": {message(func(r *sdk.SendMessageRequest) { r.Message.Parts[0].MediaType = "text/html" }), sdk.ErrUnsupportedContentType},
		"output modes": {message(func(r *sdk.SendMessageRequest) {
			r.Config = &sdk.SendMessageConfig{AcceptedOutputModes: []string{"a/b"}}
		}), sdk.ErrUnsupportedContentType},
	} {
		_, err := c.SendMessage(t.Context(), test.req)
		require.ErrorIs(t, err, test.want, name)
		for _, err := range c.SendStreamingMessage(t.Context(), test.req) {
			require.ErrorIs(t, err, test.want, name)
		}
	}
	_, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{PageSize: 101})
	require.ErrorIs(t, err, sdk.ErrInvalidParams)
	_, err = c.ListTasks(t.Context(), &sdk.ListTasksRequest{Status: "x"})
	require.ErrorIs(t, err, sdk.ErrInvalidParams)
	_, err = c.GetTask(t.Context(), &sdk.GetTaskRequest{})
	require.ErrorIs(t, err, sdk.ErrInvalidParams)
}

func TestStreamsOfOneCallerAreBounded(t *testing.T) {
	handler := &stub{events: func(ctx context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			if yield(echo("t"), nil) {
				<-ctx.Done()
			}
		}
	}}
	server := serveFront(t, Front{Handler: NewChecks(handler, nil, nil, nil, access.NewLimit(2, 3), nil),
		Auth: must(bearerTokens(map[string]string{"a": "ann", "b": "bob"}))})
	subscribe := func(token string) (resp *http.Response, stop context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/tasks/t:subscribe", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err = http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
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
	require.Eventually(t, func() bool {
		return call(t, "POST", server.URL+"/message:send", hello, "Authorization", "Bearer a").status == 200
	}, 10e9, 1e6)
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
