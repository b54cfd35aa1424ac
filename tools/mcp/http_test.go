package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/mcp"
)

// web serves a server over HTTP. What stands in front of it may be changed.
func web(t *testing.T, front func(http.Handler) http.Handler) string {
	t.Helper()
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return kind() }, nil)
	if front != nil {
		h = front(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

func TestAServerOverHTTP(t *testing.T) {
	t.Parallel()
	url := web(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer key" {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	_, err := open(t, mcp.HTTP{URL: url, Headers: map[string]string{"Authorization": "Bearer wrong"}}).Tools(t.Context())
	require.ErrorContains(t, err, "Unauthorized")
	require.NotContains(t, err.Error(), "wrong")
	r := list(t, open(t, mcp.HTTP{URL: url, Headers: map[string]string{"Authorization": "Bearer key"}}))
	require.Equal(t, "hello", good(t, r, "echo", `{"text":"hello"}`))
}

// The headers are for one host: a server that redirects to another one is refused.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	t.Cleanup(other.Close)
	url := web(t, func(http.Handler) http.Handler {
		return http.RedirectHandler(other.URL, http.StatusTemporaryRedirect)
	})
	_, err := open(t, mcp.HTTP{URL: url, Headers: map[string]string{"X-Key": "k"}}).Tools(t.Context())
	require.ErrorContains(t, err, "redirects to another place")
	require.Zero(t, seen.Load())
}

// forgetful serves servers with sessions, which it forgets when forget is called. Clients can resume their streams, which
// cut ends.
func forgetful(t *testing.T, server func() *sdk.Server) (url string, forget, cut func()) {
	t.Helper()
	var now atomic.Pointer[http.Handler]
	streams := make(chan context.CancelFunc, 100)
	forget = func() {
		var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server() }, &sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
		now.Store(&h)
	}
	forget()
	url = web(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "server/discover") { // of before version 2026-07-28
				http.Error(w, "no", http.StatusBadRequest)
				return
			} else {
				r.Body = io.NopCloser(strings.NewReader(string(body)))
			}
			ctx, end := context.WithCancel(r.Context())
			streams <- end
			(*now.Load()).ServeHTTP(w, r.WithContext(ctx))
		})
	})
	return url, forget, func() {
		for len(streams) > 0 {
			(<-streams)()
		}
	}
}

// After a restart of the server, which knows the session no more, the next call works.
func TestAServerThatForgetsItsSessions(t *testing.T) {
	t.Parallel()
	url, forget, _ := forgetful(t, kind)
	s := open(t, mcp.HTTP{URL: url})
	r := list(t, s)
	require.Equal(t, "one", good(t, r, "echo", `{"text":"one"}`))
	forget()
	answersAgain(t, s)
}

// A server that forgets a session may have executed the calls that it got in it. They are not sent again, unlike a call
// that the server refuses.
func TestCallsOfForgottenSession(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(t *testing.T, r *tools.Registry, looking <-chan bool, forget, cut func()){
		"found by the resumption of its stream": func(_ *testing.T, _ *tools.Registry, _ <-chan bool, forget, cut func()) {
			forget()
			cut()
		},
		"found by a call": func(t *testing.T, r *tools.Registry, _ <-chan bool, forget, _ func()) {
			forget()
			require.Equal(t, "refunded", good(t, r, "refund", `{"text":"2"}`))
		},
		"found by a cancellation": func(t *testing.T, r *tools.Registry, looking <-chan bool, forget, _ func()) {
			ctx, cancel := context.WithCancel(t.Context())
			var over sync.WaitGroup
			over.Go(func() { _, _ = tools.Execute(ctx, r.Get("look"), tools.CallInfo{}, json.RawMessage(`{"text":""}`)) })
			<-looking
			forget()
			cancel()
			over.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paying, looking, over := make(chan bool, 10), make(chan bool, 10), make(chan bool)
			url, forget, cut := forgetful(t, func() *sdk.Server {
				s := sdk.NewServer(&sdk.Implementation{Name: "bank", Version: "1"}, nil)
				wait := func(begun chan<- bool) func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error) {
					return func(ctx context.Context, req *sdk.CallToolRequest, _ words) (*sdk.CallToolResult, any, error) {
						// The stream of the answer begins, so that the client knows that the server has the call.
						require.NoError(t, req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1}))
						begun <- true
						select {
						case <-ctx.Done():
						case <-over:
						}
						return say("done"), nil, nil
					}
				}
				sdk.AddTool(s, &sdk.Tool{Name: "pay"}, wait(paying))
				sdk.AddTool(s, &sdk.Tool{Name: "look"}, wait(looking))
				sdk.AddTool(s, &sdk.Tool{Name: "refund"}, func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error) {
					return say("refunded"), nil, nil
				})
				return s
			})
			t.Cleanup(func() { close(over) })
			r := list(t, open(t, mcp.HTTP{URL: url}))
			result := make(chan string, 1)
			go func() {
				text, _ := call(t, r, "pay", `{"text":"40"}`)
				result <- text
			}()
			<-paying
			ask(t, r, looking, forget, cut)
			select {
			case text := <-result:
				require.Contains(t, text, "the outcome of the call is unknown")
			case <-paying:
				require.Fail(t, "the call is executed twice")
			}
		})
	}
}

// A call that the server has got is not sent again, also if the server answers with a code by which the SDK means that
// the connection was closed before.
func TestCallsThatAServerAnswersAsClosed(t *testing.T) {
	t.Parallel()
	for _, s := range []*mcp.Server{start(t, "closing"), startCommand(t, "closing")} {
		r := list(t, s)
		before := good(t, r, "bad", `{}`)
		require.Contains(t, bad(t, r, "bad", `{"text":"pay"}`), "the outcome of the call is unknown")
		require.Equal(t, before, good(t, r, "bad", `{}`), "no other process was started to get the call again")
	}

	var calls atomic.Int32
	url := web(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := must.Get(io.ReadAll(r.Body))
			r.Body = io.NopCloser(bytes.NewReader(body))
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if json.Unmarshal(body, &m) == nil && m.Method == "tools/call" {
				calls.Add(1)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32003,"message":"paid, and the receipt is lost"}}`, m.ID)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	require.Contains(t, bad(t, list(t, open(t, mcp.HTTP{URL: url})), "echo", `{"text":"x"}`), "the outcome of the call is unknown")
	require.EqualValues(t, 1, calls.Load())
}

// An answer that is too long, or no answer, is the error of its call.
func TestHostileServersOverHTTP(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, result string
		answer       func(w http.ResponseWriter)
	}{
		{"40 MB", "more than 16777216 bytes", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`)
			for range 40 {
				fmt.Fprint(w, strings.Repeat("x", 1<<20))
			}
		}},
		{"no content", "peer", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }},
		{"a page", "text/html", func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); fmt.Fprint(w, "<p>") }},
		{"busy", "Service Unavailable", func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }},
		{"an endless event", "peer", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 20 {
				fmt.Fprint(w, "data: "+strings.Repeat("x", 1<<20)+"\n")
			}
		}},
	} {
		var bad atomic.Bool
		url := web(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if bad.Load() && r.Method == http.MethodPost {
					c.answer(w)
					return
				}
				h.ServeHTTP(w, r)
			})
		})
		var opts []mcp.Option
		if c.what == "no content" { // only the end of its time ends the call
			opts = append(opts, mcp.WithTimeout(time.Second))
		}
		s := open(t, mcp.HTTP{URL: url}, opts...)
		r := list(t, s)
		bad.Store(true)
		text, failed := call(t, r, "echo", `{"text":"x"}`)
		require.True(t, failed, c.what)
		require.Contains(t, text, c.result, c.what)
		bad.Store(false)
		answersAgain(t, s)
	}
}
