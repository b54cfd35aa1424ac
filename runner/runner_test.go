package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

func TestSmoke(t *testing.T) {
	s, err := scripted.Parse([]byte(`
support: call transfer_to_agent {"agent_name":"billing","reason":"money"}
billing: "I see " "two charges."
`))
	require.NoError(t, err)
	billing, err := llmagent.New("billing", "You do billing.", s.Model("billing"), llmagent.WithDescription("Refunds"))
	require.NoError(t, err)
	support, err := llmagent.New("support", "You route.", s.Model("support"), llmagent.WithSubAgents(billing))
	require.NoError(t, err)
	r, err := runner.New(support, session.NewMemory(), runner.WithStreaming())
	require.NoError(t, err)
	for e, err := range r.Run(context.Background(), session.ID("s1"), llm.UserText("I was charged twice")) {
		require.NoError(t, err)
		b, err := e.MarshalJSON()
		require.NoError(t, err)
		t.Log(string(b))
	}
	require.NoError(t, s.Done())
	_ = agent.TransferTool
}
