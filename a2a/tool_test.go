package a2a_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
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
	require.Equal(t, []string{"Two charges.", "Two charges."}, remotetest.Texts(events))
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

// A model that reads of a failure only after a crash does not read the address either.
func TestRecordedErrorHasNoAddress(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("FAILED", "")) })
	root := withTool(t, remotetest.Billing(t, p.URL))
	f := newRunner(t, root)
	_, _, _ = f.Turn("refund")
	events, _, _ := again(t, f.crashed(t, event.TypeHarnessEnd, 1), root).resume()
	results := remotetest.Find[*event.ToolResult](events)
	require.Len(t, results, 1)
	require.True(t, results[0].IsError)
	require.NotContains(t, string(results[0].Output), "127.0.0.1")
	require.Contains(t, string(results[0].Output), "agent billing")
}
