package a2a_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/internal/remotetest"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

// As a tool a remote agent gets its input and nothing of the conversation, and
// every call has a context of its own.
func TestRemoteAsTool(t *testing.T) {
	srv := newServer(t, true, remotetest.Completes("Two ", "charges."))
	tool := must.Get(agenttool.New(remotetest.Billing(t, srv.cardURL())))
	s := scripted.New().Add("support",
		scripted.Reply(scripted.CallID("c1", "billing", `{"input":"how many?"}`), scripted.CallID("c2", "billing", `{"input":"which?"}`)),
		scripted.Reply(scripted.ExpectResult("Two charges."), scripted.Text("Two.")))
	support := must.Get(llmagent.New("support", "You ask.", s.Model("support"), llmagent.WithTools(tool)))
	events, _, err := newRunner(t, support, runner.WithStreaming()).Turn("I was charged twice")
	require.NoError(t, err)
	require.NoError(t, s.Done())
	require.Equal(t, []string{"Two charges.", "Two charges."}, remotetest.Said(events))
	var sent []string
	for _, m := range srv.messages() {
		sent = append(sent, texts(m)...)
	}
	require.ElementsMatch(t, []string{"how many?", "which?"}, sent)
	handles := remotetest.Find[*event.RemoteTask](events)
	contexts := make(map[string]bool)
	for _, h := range handles {
		contexts[h.ContextID] = true
	}
	require.Len(t, contexts, 2)
	require.Equal(t, 1, srv.fetches())
}
