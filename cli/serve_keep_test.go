package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
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
		got := invocation{}.run(t, "serve", desk, "--keep-requests", wrong)
		require.Equal(t, cli.StatusUsage, got.status, wrong)
		require.Contains(t, got.err, "32MiB")
	}
}
