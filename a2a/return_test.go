package a2a_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// A remote agent stays in charge, unless it is said that its parent answers next.
func TestReturn(t *testing.T) {
	for policy, active := range map[agent.ReturnPolicy]string{agent.StayActive: "billing", agent.ReturnToParent: "support"} {
		srv := newServer(t, true, remotetest.Completes("Done."))
		f := newRunner(t, tree(t, scripted.New().Add("support", transfer()), remotetest.Billing(t, srv.cardURL(), a2a.WithReturn(policy))))
		f.NoError(f.Turn("refund"))
		require.Equal(t, active, must.Get(f.Active(context.Background(), key)))
	}
}
