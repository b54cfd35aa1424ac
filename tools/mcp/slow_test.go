package mcp_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/mcp"
)

// A slow server starts in the background. One turn waits for it, and later ones have its tools. Only a server
// that refuses the older greeting after the newer one may be started once more.
func TestASlowServerStartsInTheBackground(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("mkfifo"); err != nil {
		t.Skip("this system has no mkfifo")
	}
	for mode, starts := range map[string]int{"older": 1, "kind": 2} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			gate, opened := filepath.Join(dir, "gate"), filepath.Join(dir, "open")
			require.NoError(t, exec.Command("mkfifo", gate).Run())
			closed := must.Get(os.OpenFile(gate, os.O_RDWR, 0))
			defer closed.Close()
			script := `echo x >> "$1/starts"; echo downloading >&2; read line < "$1/gate"; exec "$2"`
			var logged bytes.Buffer
			s := open(t, mcp.Stdio{Command: "/bin/sh", Args: []string{"-c", script, "sh", dir, os.Args[0]}, Env: []string{"SERVER=" + mode, "PATH=" + os.Getenv("PATH")}},
				mcp.WithStartTimeout(3*time.Second), mcp.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
			_, err := s.Tools(t.Context())
			require.ErrorContains(t, err, "mcp server peer: it has not answered within 3s; its tools can be used once it does; it said: downloading")
			_, again := s.Tools(t.Context())
			require.Same(t, err, again, "nobody waits a second time")
			require.NoError(t, os.WriteFile(opened, []byte("go\n"), 0o600))
			require.NoError(t, os.Rename(opened, gate))
			_, err = closed.WriteString("go\n")
			require.NoError(t, err)
			var r *tools.Registry
			must.Wait(t, func() bool {
				r, err = s.Tools(t.Context())
				return err == nil
			})
			require.Equal(t, "hello", good(t, r, "echo", `{"text":"hello"}`))
			begun := must.Get(os.ReadFile(filepath.Join(dir, "starts")))
			require.LessOrEqual(t, strings.Count(string(begun), "x"), starts)
			require.NoError(t, s.Close())
			require.Equal(t, 1, strings.Count(logged.String(), "level=WARN"), logged.String())
			require.Contains(t, logged.String(), "an MCP server has started")
		})
	}
}

// A server over HTTP that never answers the question what it speaks is greeted as older servers are.
func TestASilentServerOverHTTP(t *testing.T) {
	t.Parallel()
	url := web(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == "server/discover" {
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client has gone
				<-r.Context().Done()
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	r := list(t, open(t, mcp.HTTP{URL: url}, mcp.WithStartTimeout(10*time.Second)))
	require.Equal(t, "hello", good(t, r, "echo", `{"text":"hello"}`))
}
