package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
)

// Sessions of different users never have the same text.
func TestSessionKeysAreTold(t *testing.T) {
	a, b := agent.SessionKey{App: "app", User: "a/b", ID: "c"}, agent.SessionKey{App: "app", User: "a", ID: "b/c"}
	require.NotEqual(t, a.String(), b.String())
	require.Equal(t, "app/a/b/c", b.String())
	require.NotEqual(t, a.String(), agent.SessionKey{App: "app", User: "a%2Fb", ID: "c"}.String())
}
