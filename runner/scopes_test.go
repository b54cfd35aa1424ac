package runner_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

// The transcripts in testdata/scopes show how agents in tools ask.

// TestAskDeclined: the tool gets the user's reason, and the model reads it.
func TestAskDeclined(t *testing.T) {
	ask := must.Get(tools.Func("ask", "Asks.", func(c tools.Context, _ struct{}) (string, error) {
		answer, err := c.Ask("How many?", nil)
		return string(answer), err
	}))
	root := scriptedAgent(t, "front", seq(scripted.Reply(scripted.Call("ask", "{}")),
		scripted.Reply(scripted.ExpectResult("declined to answer: none of your business"), scripted.Text("Sorry."))), llmagent.WithTools(ask))
	r := newRun(t, root)
	run(t, r, s1, "Go")
	events := finish(t, resume(r, s1, runner.Deny("c1", "none of your business")))
	require.Equal(t, event.FinishReasonStop, endOf(events))
}

// TestWaitsForNobody: a tool that says that it waits, but neither asks nor runs anybody who does, has failed; one that
// gets around an agent that waits withdraws what that asked.
func TestWaitsForNobody(t *testing.T) {
	type none struct{}
	idle := must.Get(tools.Func("idle", "Waits.", func(tools.Context, none) (string, error) { return "", fmt.Errorf("hm: %w", agent.ErrWaits) }))
	pay := must.Get(tools.Func("pay", "Pays.", func(tools.Context, none) (string, error) { return "", errors.New("never") }, tools.NeedsApproval()))
	deaf := scriptedAgent(t, "deaf", seq(scripted.Reply(scripted.Call("pay", "{}"))), llmagent.WithTools(pay))
	around := must.Get(tools.Func("around", "Goes on.", func(c tools.Context, _ none) (string, error) {
		_, err := c.RunAgent(deaf, "pay")
		require.ErrorIs(t, err, agent.ErrWaits)
		return "went on", nil
	}))
	r := newRun(t, scriptedAgent(t, "front", seq(scripted.Reply(scripted.Call("idle", "{}"), scripted.Call("around", "{}")),
		scripted.Reply(scripted.ExpectResult("went on"), scripted.Text("Well."))), llmagent.WithTools(idle, around)))
	events := run(t, r, s1, "Go")
	require.Equal(t, event.FinishReasonStop, endOf(events))
	results := make(map[string]string)
	for _, d := range find[*event.ToolResult](events) {
		results[d.Name] += event.OutputText(d.Output)
	}
	require.Contains(t, results["idle"], "neither asked a question")
	require.Empty(t, must.Get(r.Pending(t.Context(), s1)))
	require.Empty(t, must.Get(runner.Collect(r.Resume(t.Context(), s1))).Pending)
}
