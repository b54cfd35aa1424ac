package agentfile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
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
		"support.md":         "---\nendpoint: mistral\nreasoning: {echo: on, thinking: off, effort: low}\ntimeouts: {first: 20m, answer: 1h}\n---\n",
		"support/billing.md": "---\nendpoint: [gemma, no-sampling]\nreasoning: {thinking: true}\ntimeouts: {first: 30m, silence: 2m}\n---\n",
	}
	tree, err := LoadFS(mapFS(files), ".", WithModel(script))
	require.NoError(t, err)
	r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t)))
	say(t, r, "Hi")
	on, off := true, false
	require.Equal(t, []llm.Settings{
		{Endpoint: []string{"mistral"}, Echo: llm.EchoOn, Thinking: &off, ReasoningEffort: "low", Timeouts: llm.Timeouts{First: 20 * time.Minute, Answer: time.Hour}},
		{Endpoint: []string{"gemma", "no-sampling"}, Echo: llm.EchoOn, Thinking: &on, ReasoningEffort: "low", Timeouts: llm.Timeouts{First: 30 * time.Minute, Silence: 2 * time.Minute, Answer: time.Hour}},
	}, asked)

	_, err = LoadFS(mapFS(map[string]string{"a.md": "---\nendpoint: mistrol\nreasoning: {echo: maybe, thinking: some}\ntimeouts: {frist: 1m, silence: 20}\n---\n"}), ".", WithModel(script))
	for _, want := range []string{`no endpoint is called "mistrol"; did you mean "mistral"?`, `reasoning.echo must be auto, on or off, not "maybe"`, `reasoning.thinking must be on or off`, `a.md:4: timeouts.silence must be a time with its unit such as 2m`, `did you mean "first"?`} {
		require.ErrorContains(t, err, want)
	}
}
