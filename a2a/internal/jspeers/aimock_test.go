package jspeers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/internal/must"
)

// Another server, which takes the protocol lightly.
func TestRemoteTakesItLightly(t *testing.T) {
	t.Parallel()
	p := start(t, "aimock.mjs")
	unary := must.Get(a2a.Remote("billing", p.Unary))
	for words, answer := range map[string]string{"message": "Just words.", "task": "All at once."} {
		events, _, err := newClient(t, unary).turn(t.Context(), words)
		require.NoError(t, err)
		require.Equal(t, []string{answer}, said(events))
	}

	streams := must.Get(a2a.Remote("billing", p.URL))
	events, _, err := newClient(t, streams).turn(t.Context(), "message")
	var failed *a2a.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, a2a.CodeProtocol, failed.Code)
	require.Contains(t, failed.Message, "No matching pattern")
	require.Empty(t, said(events))
}
