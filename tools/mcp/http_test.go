package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

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

// After a restart of the server, which knows the session no more, the next call works.
func TestAServerThatForgetsItsSessions(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[http.Handler]
	fresh := func() {
		var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return kind() }, &sdk.StreamableHTTPOptions{})
		now.Store(&h)
	}
	fresh()
	url := web(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "server/discover") { // of before version 2026-07-28
				http.Error(w, "no", http.StatusBadRequest)
				return
			} else {
				r.Body = io.NopCloser(strings.NewReader(string(body)))
			}
			(*now.Load()).ServeHTTP(w, r)
		})
	})
	s := open(t, mcp.HTTP{URL: url})
	r := list(t, s)
	require.Equal(t, "one", good(t, r, "echo", `{"text":"one"}`))
	fresh()
	require.Eventually(t, func() bool {
		text, failed := call(t, list(t, s), "echo", `{"text":"two"}`)
		return !failed && text == "two"
	}, 10*time.Second, time.Millisecond)
}

// An answer that is too long, or no answer, is the error of its call.
func TestHostileServersOverHTTP(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, result string
		answer       func(w http.ResponseWriter)
	}{
		{"100 MB", "more than 16777216 bytes", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`)
			for range 100 {
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
		within := 3 * time.Second
		if c.what == "100 MB" { // of which 16 have to come before it is refused
			within = time.Minute
		}
		s := open(t, mcp.HTTP{URL: url}, mcp.WithTimeout(within))
		r := list(t, s)
		bad.Store(true)
		text, failed := call(t, r, "echo", `{"text":"x"}`)
		require.True(t, failed, c.what)
		require.Contains(t, text, c.result, c.what)
		bad.Store(false)
		require.Eventually(t, func() bool {
			text, failed := call(t, list(t, s), "echo", `{"text":"again"}`)
			return !failed && text == "again"
		}, 20*time.Second, 10*time.Millisecond, c.what)
	}
}
