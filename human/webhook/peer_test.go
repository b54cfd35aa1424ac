package webhook_test

import (
	"bufio"
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/human/webhook"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// peer is a command of Node.js in the folder of the desk that knows Standard Webhooks.
func peer(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	missing := ""
	if _, err := exec.LookPath("node"); err != nil {
		missing = "node is not installed; with Node.js 20 or later: "
	} else if _, err := os.Stat("testdata/peer/node_modules/standardwebhooks/package.json"); err != nil {
		missing = "the JavaScript library of Standard Webhooks is not installed: "
	}
	if missing != "" {
		missing += "npm --prefix human/webhook/testdata/peer ci --ignore-scripts"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	cmd := exec.Command("node", args...)
	cmd.Dir, cmd.Stderr = filepath.Join("testdata", "peer"), os.Stderr
	return cmd
}

func TestPeerVector(t *testing.T) {
	out, err := peer(t, "vector.mjs").Output()
	require.NoError(t, err)
	want := must.Get(os.ReadFile("testdata/vector.json"))
	require.Equal(t, string(want), string(out))
}

// TestPeer talks with a desk whose signatures are those of the JavaScript library, which refuses
// ours if they are wrong.
func TestPeer(t *testing.T) {
	heard := make(chan human.Event, 2)
	var d *webhook.Desk
	deliver := func(_ context.Context, key agent.SessionKey, e human.Event) error {
		require.Equal(t, session, key)
		heard <- e
		return nil
	}
	server := httptest.NewUnstartedServer(nil)
	cmd := peer(t, "desk.mjs", "http://"+server.Listener.Addr().String(), secret)
	in := must.Get(cmd.StdinPipe())
	out := must.Get(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	d = newDesk(t, strings.TrimSpace(address))
	server.Config.Handler = d.Handler(deliver)
	server.Start()
	defer server.Close()

	u, err := d.RequestTransfer(t.Context(), human.Request{Leg: leg, Reason: "Grüße ☎"})
	require.NoError(t, err)
	require.Equal(t, human.Update{Status: human.Queued, QueuePosition: new(3), EstimatedWait: new(90 * time.Second)}, u)
	require.NoError(t, d.Send(t.Context(), leg, []human.Message{{ID: "1", Author: "user", Text: "hello <&>"}}))
	require.Equal(t, human.Event{ID: "re-1", HandoffID: "h", Update: human.Update{Status: human.Connected}, Text: "HELLO <&>"}, <-heard)
	require.NoError(t, d.Cancel(t.Context(), leg, ""))

	stranger := must.Get(webhook.New(strings.TrimSpace(address), secret2, webhook.WithHTTP(), webhook.WithLoopback()))
	require.ErrorContains(t, stranger.Cancel(t.Context(), leg, ""), "answered 401")
}
