package a2aserver

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A tree whose specialist is another tree, served over HTTP.
func TestRemoteNode(t *testing.T) {
	script := scripted.New().Add("support", handOver()).Add("billing", scripted.Reply(scripted.Text("Refunded ", "both.")), scripted.Reply(scripted.Text("Bye.")))
	srv := httptest.NewServer(newTestServer(t, scriptedTree(t, script), sessiontest.Memory(t)))
	t.Cleanup(srv.Close)
	far, err := a2a.Remote("far", srv.URL)
	require.NoError(t, err)
	front := scripted.New().Add("front", scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"far"}`)))
	root, err := llmagent.New("front", "You route.", front.Model("front"), llmagent.WithSubAgents(far))
	require.NoError(t, err)
	r, err := runner.New(root, sessiontest.Memory(t), runner.WithStreaming())
	require.NoError(t, err)
	said := func(text string) (streamed string, words []string) {
		for e, err := range r.Run(context.Background(), session.ID("s"), llm.UserText(text)) {
			require.NoError(t, err)
			if d, ok := e.Data.(*event.Text); ok && e.Partial {
				streamed += d.Content
			} else if ok {
				require.Equal(t, "far", e.Agent)
				require.Equal(t, "front/far", e.Path)
				words = append(words, d.Content)
			}
		}
		return streamed, words
	}
	streamed, words := said("I was charged twice")
	require.Equal(t, []string{"Refunded both."}, words)
	require.Equal(t, "Refunded both.", streamed)
	_, words = said("thanks")
	require.Equal(t, []string{"Bye."}, words)
	require.NoError(t, script.Done())
	require.NoError(t, front.Done())
}
