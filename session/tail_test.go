package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
)

func TestPositions(t *testing.T) {
	for id, want := range map[string]session.Position{"": {}, "0-0": {}, "12": {Seq: 12}, "12-0": {Seq: 12}, "12-3": {Seq: 12, Part: 3}} {
		p, err := session.ParsePosition(id)
		require.NoError(t, err, id)
		require.Equal(t, want, p, id)
		again := must.Get(session.ParsePosition(p.String()))
		require.Equal(t, p, again)
	}
	require.Equal(t, "12-3", session.Position{Seq: 12, Part: 3}.String())
	for _, id := range []string{"-", "x", "1-", "-1", "1-x", "1-2-3", " 1", "1.5", "+1", "9223372036854775808", "1-9223372036854775808", "$"} {
		_, err := session.ParsePosition(id)
		require.ErrorIs(t, err, agent.ErrBadInput, id)
	}
}
