package agentfile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestEndpointKeys: endpoint and reasoning hold for the agents under an agent, key by key.
func TestEndpointKeys(t *testing.T) {
	var asked []llm.Settings
	script := func(name string) (llm.Model, error) {
		return scripted.Func("m", func(req *llm.Request) scripted.Answer {
			if asked = append(asked, req.Settings); len(req.Tools) > 0 {
				return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name": "billing"}`))
			}
			return scripted.Reply(scripted.Text("ok"))
		}), nil
	}
	files := map[string]string{
		"support.md":         "---\nendpoint: mistral\nreasoning: {echo: on, thinking: off, effort: low}\n---\n",
		"support/billing.md": "---\nendpoint: [gemma, no-sampling]\nreasoning: {thinking: true}\n---\n",
	}
	tree, err := LoadFS(mapFS(files), ".", WithModel(script))
	require.NoError(t, err)
	r, err := runner.New(tree.Root(), sessiontest.Memory(t))
	require.NoError(t, err)
	say(t, r, "Hi")
	on, off := true, false
	require.Equal(t, []llm.Settings{
		{Endpoint: []string{"mistral"}, Echo: llm.EchoOn, Thinking: &off, ReasoningEffort: "low"},
		{Endpoint: []string{"gemma", "no-sampling"}, Echo: llm.EchoOn, Thinking: &on, ReasoningEffort: "low"},
	}, asked)

	_, err = LoadFS(mapFS(map[string]string{"a.md": "---\nendpoint: mistrol\nreasoning: {echo: maybe, thinking: some}\n---\n"}), ".", WithModel(script))
	for _, want := range []string{`no endpoint is called "mistrol"; did you mean "mistral"?`, `reasoning.echo must be auto, on or off, not "maybe"`, `reasoning.thinking must be on or off`} {
		require.ErrorContains(t, err, want)
	}
}
