package jspeers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
)

// Another server, which takes the protocol lightly.
func TestRemoteTakesItLightly(t *testing.T) {
	t.Parallel()
	p := start(t, "aimock.mjs")
	unary := must.Get(a2a.Remote("billing", p.Unary))
	for words, answer := range map[string]string{"message": "Just words.", "task": "All at once."} {
		events, _, err := remotetest.NewClient(t, unary, runner.WithStreaming()).Turn(words)
		require.NoError(t, err)
		require.Equal(t, []string{answer}, remotetest.Texts(events))
	}

	streams := must.Get(a2a.Remote("billing", p.URL))
	events, _, err := remotetest.NewClient(t, streams, runner.WithStreaming()).Turn("message")
	var failed *a2a.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, a2a.CodeProtocol, failed.Code)
	require.Contains(t, failed.Message, "No matching pattern")
	require.Empty(t, remotetest.Texts(events))
}
