package jspeers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
)

// A client in JavaScript talks to an agent in JavaScript, through our server and our
// remote node: what the agent does is what the client sees.
func TestClientThroughOurTree(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		p := start(t, "server.mjs")
		bank, err := a2a.Remote("bank", p.URL+"/jsonrpc/stream"+cardPath)
		require.NoError(t, err)
		to := s.target(serve(t, bank))

		events := s.stream(to, "stream", s.say("pieces", nil)).rest()
		require.Equal(t, []string{"bank: I see two charges."}, assemble(events).texts())
		done := s.send(to, s.say("message", nil))
		require.Equal(t, []string{"bank: Just words."}, done.texts())

		asked := s.send(to, s.say("ask", nil))
		require.Equal(t, state("input-required"), asked.Status.State)
		require.Equal(t, "Which one?", textOf(asked.Status.Message.Parts))
		done = s.send(to, s.say("the second", map[string]any{"taskId": asked.ID, "contextId": asked.ContextID}))
		require.Equal(t, asked.ID, done.ID)
		require.Equal(t, state("completed"), done.Status.State)
		require.Contains(t, done.texts(), "bank: It is the second.")

		failed := s.send(to, s.say("fail", nil))
		require.Equal(t, state("failed"), failed.Status.State)

		running := s.stream(to, "stream", s.say("wait", nil))
		id := running.must().Task.ID
		require.Eventually(t, func() bool { return len(p.heard(t).Waiting) == 1 }, patience, patience/1000)
		require.NoError(t, s.call(to, "cancel", map[string]any{"id": id}, nil))
		running.rest()
		require.Eventually(t, func() bool { return len(p.heard(t).Canceled) == 1 }, patience, patience/1000)
	})
}
