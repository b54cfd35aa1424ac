package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/exampletest"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/session/sqlite"
)

// replica starts one of several processes of the service, as it were: they share the file
// alone.
func replica(t *testing.T, file string) *httptest.Server {
	db, err := sqlite.Open(file)
	require.NoError(t, err)
	handler, turns, err := newService(db, offline.New(), map[string]string{"ann's": "ann", "bob's": "bob"}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		require.NoError(t, turns.Close(context.Background()))
		server.Close()
		require.NoError(t, db.Close())
	})
	return server
}

func send(t *testing.T, ctx context.Context, method, url, token, body string) *http.Response {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func do(t *testing.T, method, url, token, body string) (status int, answer map[string]any) {
	res := send(t, t.Context(), method, url, token, body)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		require.NoError(t, json.Unmarshal(text, &answer))
	}
	return res.StatusCode, answer
}

// follow reads a session's events behind an id until one is enough, and then goes away. It
// returns that one and the id of the last, and how many stored ones came.
func follow(t *testing.T, server *httptest.Server, after string, enough func(*event.Event) bool) (found *event.Event, last string, n int) {
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/sessions/s1/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer ann's")
	req.Header.Set("Last-Event-ID", after)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			last = id
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		e := new(event.Event)
		require.NoError(t, json.Unmarshal([]byte(data), e))
		if !e.Partial {
			n++
		}
		if enough(e) {
			return e, last, n
		}
	}
	require.FailNow(t, "the stream ended", "%v", lines.Err())
	return nil, "", 0
}

// TestTwoReplicas: a turn that was begun at one process is followed, approved and read to its
// end at another one, by clients that come and go.
func TestTwoReplicas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "service.db")
	a, b := replica(t, file), replica(t, file)

	status, _ := do(t, "POST", a.URL+"/sessions/s1/messages", "", `{"text":"hello"}`)
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = do(t, "POST", a.URL+"/sessions/s1/messages", "ann's", `hello`)
	require.Equal(t, http.StatusBadRequest, status)
	status, _ = do(t, "POST", a.URL+"/sessions/s1/messages", "ann's", `{"text":"I was charged twice, money back for ch_7 please"}`)
	require.Equal(t, http.StatusAccepted, status)

	asked, last, n := follow(t, b, "", func(e *event.Event) bool { _, is := e.Data.(*event.HarnessEnd); return is && e.Agent == "refunds" })
	require.Equal(t, event.FinishReasonInputRequired, asked.Data.(*event.HarnessEnd).FinishReason)
	require.Equal(t, int(asked.Seq), n, "each stored event once")

	// What the turn waits for can be seen at any process, by its user alone.
	status, now := do(t, "GET", b.URL+"/sessions/s1", "ann's", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []any{"waiting", "refunds"}, []any{now["state"], now["agent"]})
	call := now["pending"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"refund", map[string]any{"id": "ch_7"}}, []any{call["tool"], call["params"]})
	_, others := do(t, "GET", b.URL+"/sessions/s1", "bob's", "")
	require.Equal(t, "", others["state"])

	status, _ = do(t, "POST", b.URL+"/sessions/s1/decisions", "ann's", `{"callId":"another","approved":true}`)
	require.Equal(t, http.StatusConflict, status)
	status, _ = do(t, "POST", b.URL+"/sessions/s1/decisions", "ann's", `{"callId":"`+call["callId"].(string)+`","approved":true}`)
	require.Equal(t, http.StatusAccepted, status)

	// The client comes back to the other process with the last id that it has.
	done, _, _ := follow(t, a, last, func(e *event.Event) bool { require.Greater(t, e.Seq, asked.Seq); return e.Text() != "" })
	require.Equal(t, "Done: ch_7 is paid back.", done.Text())

	status, _ = do(t, "POST", a.URL+"/sessions/s1/decisions", "ann's", `{"callId":"`+call["callId"].(string)+`","approved":true}`)
	require.Less(t, status, 300, "the same decision again changes nothing")
	status, _ = do(t, "POST", a.URL+"/sessions/s1/decisions", "ann's", `{"callId":"`+call["callId"].(string)+`","approved":false}`)
	require.Equal(t, http.StatusConflict, status, "the call has run")
	status, _ = do(t, "POST", a.URL+"/sessions/s1/cancel", "ann's", "")
	require.Equal(t, http.StatusNoContent, status)
}

// TestEndpoint: the service as its command serves it asks the endpoint that the environment names.
func TestEndpoint(t *testing.T) {
	env, requests := exampletest.Endpoint(t)
	for _, c := range []struct {
		env   []string
		model bool
	}{{env, true}, {nil, false}} {
		exampletest.Setenv(t, c.env...)
		before := requests()
		ctx, stop := context.WithCancel(t.Context())
		in, out := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, out, "127.0.0.1:0", filepath.Join(t.TempDir(), "service.db"), "ann=ann's") }()
		url, err := bufio.NewReader(in).ReadString('\n')
		require.NoError(t, err)
		server := &httptest.Server{URL: strings.TrimSpace(url)}
		status, _ := do(t, "POST", server.URL+"/sessions/s1/messages", "ann's", `{"text":"Hello"}`)
		require.Equal(t, http.StatusAccepted, status)
		answer, _, _ := follow(t, server, "", func(e *event.Event) bool { return e.Text() != "" })
		require.Equal(t, "support", answer.Agent)
		require.Equal(t, c.model, requests() > before)
		stop()
		require.NoError(t, <-ended)
	}
	exampletest.Setenv(t, env[:2]...)
	require.ErrorContains(t, serve(t.Context(), io.Discard, "127.0.0.1:0", filepath.Join(t.TempDir(), "service.db"), "ann=ann's"), "set OPENAI_MODEL")
}

func TestTokens(t *testing.T) {
	users, err := readTokens("ann=x, bob=y")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x": "ann", "y": "bob"}, users)
	for _, wrong := range []string{"", "ann", "=x", "ann="} {
		_, err := readTokens(wrong)
		require.ErrorContains(t, err, "SERVICE_TOKENS must be a list", wrong)
	}
}
