package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// A turn that was begun over A2A is looked at over the API: what was really asked, and what it cost.
func TestServeKeepsRequests(t *testing.T) {
	t.Parallel()
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(prices, []byte("offline: {input: 1000, output: 2000}\n"), 0o600))
	for _, kept := range []bool{false, true} {
		args := []string{desk, "--prices", prices}
		if kept {
			args = append(args, "--keep-requests", "1MiB")
		}
		s := invocation{home: t.TempDir()}.serve(t, args...)
		begun := s.send("I was charged twice")
		status, body := s.call("GET", fmt.Sprintf("/api/v1/sessions/%s/views/support?at=2", begun.ContextID), "")
		require.Equal(t, 200, status, body)
		var view struct {
			Messages []any
			Sent     *struct{ Request struct{ Messages []any } }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &view))
		require.Equal(t, kept, view.Sent != nil, body)
		if kept {
			require.Equal(t, view.Messages, view.Sent.Request.Messages)
		}
		status, body = s.call("GET", fmt.Sprintf("/api/v1/sessions/%s/usage", begun.ContextID), "")
		require.Equal(t, 200, status, body)
		require.Contains(t, body, `"price":{"input":1000,"output":2000}`)
		require.Equal(t, 0, s.stop(os.Interrupt))
	}
	for _, wrong := range []string{"", "0", "-1", "1MB", "9999999999GiB", "x"} {
		got := invocation{}.run(t, "serve", desk, "--keep-requests", wrong).exits(t, cli.StatusUsage, wrong)
		require.Contains(t, got.err, "32MiB")
	}
}

// A body that is too slow or too large is refused in the same way at every door.
func TestServeBoundsBodies(t *testing.T) {
	t.Parallel()
	s := invocation{}.serve(t, desk, "--db", ":memory:", "--mcp", "--a2a03", "--body-time", "100ms", "--max-body", "1KiB")
	for _, path := range []string{"/api/v1/sessions", "/v1/chat/completions", "/v1/responses", "/agui", "/rpc", "/message:send", "/mcp", "/inspect/sign-in"} {
		t.Run(path, func(t *testing.T) {
			ask := func(length int, body string) string {
				conn := must.Get(net.Dial("tcp", strings.TrimPrefix(s.base, "http://")))
				defer conn.Close()
				_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
					"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", path, token, length, body)
				require.NoError(t, err)
				return string(must.Get(io.ReadAll(conn)))
			}
			require.Contains(t, ask(4, "{"), "408 Request Timeout")
			require.Contains(t, ask(2000, strings.Repeat(" ", 2000)), "413 Request Entity Too Large")
		})
	}
	require.Equal(t, 0, s.stop(os.Interrupt))
}

// The operator says which agents are offered the tools that clients bring along.
func TestServeClientTools(t *testing.T) {
	t.Parallel()
	const body = `{"model":"support","messages":[{"role":"user","content":"hello"}],"tools":[{"type":"function","function":{"name":"show_map"}}]}`
	for flag, want := range map[string]int{"none": http.StatusBadRequest, "all": http.StatusOK, "support,billing": http.StatusOK} {
		s := invocation{}.serve(t, desk, "--db", ":memory:", "--client-tools", flag)
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/v1/chat/completions", strings.NewReader(body)))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		resp := must.Get(http.DefaultClient.Do(r))
		_ = resp.Body.Close()
		require.Equal(t, want, resp.StatusCode, flag)
		require.Equal(t, 0, s.stop(os.Interrupt))
	}
	got := invocation{}.run(t, "serve", desk, "--db", ":memory:", "--addr", "127.0.0.1:0", "--client-tools", "nobody")
	require.Equal(t, cli.StatusUsage, got.status)
	require.Contains(t, got.err, `--client-tools: the tree has no agent "nobody"`)
}

func TestServeLimits(t *testing.T) {
	t.Parallel()
	t.Run("a thousand followers", func(t *testing.T) {
		t.Parallel()
		s := invocation{}.serve(t, desk, "--db", ":memory:")
		id := s.send("I was charged twice").ContextID
		var all sync.WaitGroup
		defer all.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 1000 {
			resp := s.follow(ctx, id)
			require.Equal(t, 200, resp.StatusCode)
			all.Go(func() {
				<-ctx.Done()
				_ = resp.Body.Close()
			})
		}
	})
	t.Run("as the flags say", func(t *testing.T) {
		t.Parallel()
		for _, flag := range []string{"--max-streams", "--max-user-streams"} {
			s := invocation{}.serve(t, desk, "--db", ":memory:", flag, "1")
			id := s.send("I was charged twice").ContextID
			open := s.follow(t.Context(), id)
			require.Equal(t, 200, open.StatusCode)
			must.Get(bufio.NewReader(open.Body).ReadString('\n'))
			refused := s.follow(t.Context(), id)
			require.Equal(t, 429, refused.StatusCode)
			require.Equal(t, "1", refused.Header.Get("Retry-After"))
			require.NoError(t, refused.Body.Close())
			require.NoError(t, open.Body.Close())
			require.Equal(t, 0, s.stop(os.Interrupt))
		}
	})
	for _, wrong := range [][]string{{"--max-turns", "0"}, {"--max-user-turns", "-1"}, {"--max-streams", "0"}, {"--max-user-streams", "0"}, {"--body-time", "0s"}, {"--max-body", "0"}} {
		got := invocation{}.run(t, append([]string{"serve", desk}, wrong...)...).exits(t, cli.StatusUsage, wrong)
		require.Contains(t, got.err, wrong[0])
	}
}

// follow opens a stream of what happens in a session.
func (s *served) follow(ctx context.Context, id string) *http.Response {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, "GET", s.base+"/api/v1/sessions/"+id+"/events", nil))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	return must.Get(http.DefaultClient.Do(req))
}
