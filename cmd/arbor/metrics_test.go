package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
)

// said is what a command writes while it runs.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// What a server does can be read from its metrics and from its log, without what is secret.
func TestServeIsObserved(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "solo.md"), []byte("---\nname: solo\n---\nYou answer.\n"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, err said
	streams := cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Getenv: func(name string) string {
		return map[string]string{"ARBOR_TOKEN": "the-secret", "XDG_STATE_HOME": dir, "HOME": dir}[name]
	}}
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, []string{"serve", dir, "--addr", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log", "json", "--db", ":memory:"}, streams, options()...)
	}()
	require.Eventually(t, func() bool { return strings.HasSuffix(out.String(), "\n") }, time.Minute, time.Millisecond, &err)
	base := strings.TrimSpace(out.String())
	metrics := regexp.MustCompile(`metrics at (\S+)`).FindStringSubmatch(err.String())
	require.Len(t, metrics, 2, err.String())

	for path, body := range map[string]string{
		"/api/v1/sessions":     `{"id":"private-session","content":"private words"}`,
		"/v1/chat/completions": `{"model":"solo","stream":true,"messages":[{"role":"user","content":"private words"}]}`,
	} {
		r, fault := http.NewRequestWithContext(ctx, http.MethodPost, base+path+"?private=query", strings.NewReader(body))
		require.NoError(t, fault)
		r.Header.Set("Authorization", "Bearer the-secret")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Prefer", "wait=30")
		res, fault := http.DefaultClient.Do(r)
		require.NoError(t, fault)
		answer, fault := io.ReadAll(res.Body)
		require.NoError(t, fault)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 200, res.StatusCode, string(answer))
	}
	wants := []string{`http_route="/v1/chat/completions"`, `http_route="/api/v1/sessions"`, `arbor_turns_total{arbor_api="api",arbor_turn_state="done"} 1`, `arbor_turns_total{arbor_api="openai",arbor_turn_state="done"} 1`,
		`arbor_turns_running{arbor_api="openai"} 0`, `arbor_streams{arbor_api="openai"} 0`, `arbor_delta_duration_seconds_count{arbor_api="openai"}`, "gen_ai_client_token_usage_count"}
	var page, missing string
	require.Eventually(t, func() bool { // requests and turns are counted when their answers have been written
		res, fault := http.Get(metrics[1])
		require.NoError(t, fault)
		body, fault := io.ReadAll(res.Body)
		require.NoError(t, fault)
		require.NoError(t, res.Body.Close())
		page = string(body)
		at := slices.IndexFunc(wants, func(want string) bool { return !strings.Contains(page, want) })
		if at >= 0 {
			missing = wants[at]
		}
		return at < 0
	}, time.Minute, 10*time.Millisecond, "%s", &missing)
	require.NotContains(t, page, "private")
	require.NotContains(t, page, `"local"`)

	stop()
	require.Equal(t, 0, <-ended, err.String())
	lines := 0
	for line := range strings.Lines(err.String()) {
		var entry struct{ Msg, Method, Route, Session, User string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "request" {
			lines++
			require.Equal(t, "POST", entry.Method)
			require.Equal(t, "local", entry.User)
		}
	}
	require.Equal(t, 2, lines)
	require.NotContains(t, err.String(), "private words")
	require.NotContains(t, err.String(), "private=query")
	require.NotContains(t, err.String(), "the-secret")
}
