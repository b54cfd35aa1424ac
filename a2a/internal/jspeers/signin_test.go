package jspeers_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
)

// A remote agent that wants its user to sign in pauses the turn. A new run goes on
// with the same task and says nothing a second time.
func TestRemoteWantsSignIn(t *testing.T) {
	eachBinding(t, func(t *testing.T, remote agent.Agent, p *peer, _ bool) {
		c := remotetest.NewClient(t, remote, runner.WithStreaming())
		events, _, err := c.Turn("sign in")
		require.NoError(t, err)
		require.Equal(t, []string{"Sign in first."}, remotetest.Texts(events))
		task := last(remotetest.Find[*event.RemoteTask](events))
		require.Equal(t, "auth_required", task.Status)
		require.Equal(t, event.FinishReasonInputRequired, last(remotetest.Find[*event.HarnessEnd](events)).FinishReason)

		p.grant(t, task.TaskID)
		events, _, err = c.Collect(c.Resume(t.Context(), remotetest.Key))
		require.NoError(t, err)
		require.Equal(t, []string{"Welcome back."}, remotetest.Texts(events))
		done := last(remotetest.Find[*event.RemoteTask](events))
		require.Equal(t, task.TaskID, done.TaskID)
		require.Equal(t, "completed", done.Status)
		require.Len(t, p.heard(t).in(task.ContextID).Messages, 1)
	})
}

// A remote agent that wants its user to sign in is heard through our tree. A client
// that listens to the task when that was done has it go on.
func TestClientSignsIn(t *testing.T) {
	p := start(t, "server.mjs") // for no other test, so that one task waits
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		bank := must.Get(a2a.Remote("bank", p.URL+"/jsonrpc/stream"+cardPath))
		to := s.target(serve(t, support(t, bank)))
		asked := s.send(to, s.say("bank sign in", nil))
		require.Equal(t, state("auth-required"), asked.Status.State)
		require.Equal(t, "Sign in first.", textOf(asked.Status.Message.Parts))
		waiting := p.heard(t).Waiting
		require.Len(t, waiting, 1)
		p.grant(t, waiting[0])

		events := s.stream(to, "subscribe", map[string]any{"id": asked.ID}).rest()
		require.Equal(t, asked.ID, events[0].Task.ID)
		done := assemble(events)
		require.Equal(t, state("completed"), done.Status.State)
		require.Contains(t, done.texts(), "bank: Welcome back.")
	})
}

// grant tells the peer that the user of a task has signed in.
func (p *peer) grant(t *testing.T, taskID string) {
	t.Helper()
	resp := must.Get(http.Post(fmt.Sprintf("%s/grant/%s", p.URL, taskID), "", nil))
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
}
