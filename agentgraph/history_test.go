package agentgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// TestHistory: a node that is to see the conversation around does, images too; others see what
// their edges give them.
func TestHistory(t *testing.T) {
	s := scripted.New(scripted.WithRecording())
	resolve := func(name string, _ map[string]any) (agent.Agent, error) {
		return llmagent.New(name, "", s.Model(name))
	}
	for range 2 {
		s.Add("look", scripted.Reply(scripted.Text("A heron."))).Add("tell", scripted.Reply(scripted.Text("It is a heron.")))
	}
	loaded := must.Get(agentgraph.Load([]byte(`apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: birds, version: 1.0.0}
spec:
  agents:
    - {id: see, agentRef: look, history: "last_turns:2"}
    - {id: say, agentRef: tell}
  edges: [{from: see, to: say}]
  entrypoint: see
`), agentgraph.WithRefs("look", "tell")))
	g := must.Get(agentgraph.New(loaded, resolve))
	r := must.Get(runner.New(g, sessiontest.Memory(t)))
	image := llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1}}
	for _, m := range []llm.Message{{Role: llm.RoleUser, Content: llm.Content{Text: "What is this?", Parts: []llm.Part{image}}}, llm.UserText("And now?")} {
		for _, err := range sessiontest.Turn(t, r.Run(t.Context(), key, m)) {
			require.NoError(t, err)
		}
	}
	seen := s.Requests("look")
	require.Len(t, seen[0].Messages, 1)
	require.Equal(t, "What is this?", seen[0].Messages[0].PlainText())
	require.Contains(t, seen[0].Messages[0].Parts, llm.Part(image))
	require.Len(t, seen[1].Messages, 3)
	require.Equal(t, "[birds] It is a heron.", seen[1].Messages[1].Text)
	require.Equal(t, "And now?", seen[1].Messages[2].Text)
	require.Equal(t, []llm.Message{llm.UserText("A heron.")}, s.Requests("tell")[1].Messages)

	first := must.Get(llmagent.New("first", "", s.Model("first")))
	_, err := agentgraph.NewBuilder("b").Node("first", first, agentgraph.History(view.Own())).Build()
	require.NoError(t, err)
}

func TestHistoryProblems(t *testing.T) {
	for _, value := range []string{"all", "last_turns:0", "{last_turns: 2}", "3"} {
		_, err := agentgraph.Load([]byte(`apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: birds, version: 1.0.0}
spec:
  agents:
    - {id: see, agentRef: look, history: ` + value + `}
  entrypoint: see
`))
		require.ErrorContains(t, err, `history must be "full", "text_only", "own" or "last_turns:N"`, value)
	}
}
