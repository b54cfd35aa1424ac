package agentgraph_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

func llmAgent(t testing.TB, s *scripted.Script, name string, opts ...llmagent.Option) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New(name, "You are "+name+".", s.Model(name), opts...))
}

// An LLM agent in a graph sees its input and nothing else, has the node's id for its
// name, and may call tools and hand over to agents of its own.
func TestLLMAgentsAsNodes(t *testing.T) {
	s := scripted.New(scripted.WithRecording())
	s.Add("writing-agent", scripted.Reply(scripted.CallID("c1", "lookup", `{"word":"tree"}`)), scripted.Reply(scripted.Text("```json\n{\"draft\": \"about trees\"}\n```")))
	s.Add("desk", scripted.Reply(scripted.CallID("c2", agent.TransferTool, `{"agent_name":"editor"}`)))
	s.Add("editor", scripted.Reply(scripted.Text("Edited.")))
	var asked tools.Context
	lookup := must.Get(tools.Func("lookup", "Looks a word up.", func(ctx tools.Context, in struct {
		Word string `json:"word"`
	}) (string, error) {
		asked = ctx
		return "wood", nil
	}))
	a := must.Get(agentgraph.NewBuilder("article").
		Node("writer", llmAgent(t, s, "writing-agent", llmagent.WithTools(lookup))).
		Node("front", llmAgent(t, s, "desk", llmagent.WithSubAgents(llmAgent(t, s, "editor")))).
		Edge("writer", "front", agentgraph.Transform(func(v agentgraph.Values) (any, error) { return v.Output.(map[string]any)["draft"], nil })).Build())
	result, events, err := try(t, a, "Write about trees.")
	require.NoError(t, err)
	require.JSONEq(t, `{"draft":"about trees"}`, string(result.Outputs["writer"]))
	require.Equal(t, `"about trees"`, string(result.Inputs["front"]))
	require.Equal(t, `"Edited."`, string(result.Terminal["front"]))
	require.Equal(t, "writer", asked.Agent())
	require.Equal(t, []llm.Message{llm.UserText("Write about trees.")}, s.Requests("writing-agent")[0].Messages)
	require.Equal(t, []llm.Message{llm.UserText("about trees")}, s.Requests("desk")[0].Messages)
	require.Equal(t, "You are writing-agent.", s.Requests("writing-agent")[0].System, "nothing about transfers")
	require.NoError(t, s.Done())
	names := map[string]string{}
	for _, e := range events {
		if start, ok := e.Data.(*event.HarnessStart); ok {
			names[e.Agent] = start.AgentID
		}
	}
	require.Equal(t, map[string]string{"article": "article", "writer": "writing-agent", "front": "desk", "editor": "editor"}, names)
}

// A coordinator hands the conversation to a graph, and has it again with the user's next
// message.
func TestGraphAsTransferTarget(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.CallID("c1", agent.TransferTool, `{"agent_name":"report"}`)), scripted.Reply(scripted.Text("You are welcome."))).
		Add("writer", scripted.Reply(scripted.Text("The report.")))
	said := saidByTarget(t, s)
	require.Equal(t, []string{"report: The report."}, said("A report, please."))
	require.Equal(t, []string{"support: You are welcome."}, said("Thanks."))
	require.NoError(t, s.Done())
}

// A graph that stays active answers the user's next message, too.
func TestGraphStaysActive(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.CallID("c1", agent.TransferTool, `{"agent_name":"report"}`))).
		Add("writer", scripted.Reply(scripted.Text("The report.")), scripted.Reply(scripted.Text("Another one.")))
	said := saidByTarget(t, s, agentgraph.WithReturn(agent.StayActive))
	require.Equal(t, []string{"report: The report."}, said("A report, please."))
	require.Equal(t, []string{"report: Another one."}, said("One more."))
	require.NoError(t, s.Done())
}

// saidByTarget returns a function that runs a turn of a coordinator with a graph as its target, and returns the texts
// of the turn with their agents.
func saidByTarget(t *testing.T, s *scripted.Script, opts ...agentgraph.AgentOption) func(text string) []string {
	report := must.Get(agentgraph.NewBuilder("report").Node("writer", llmAgent(t, s, "writer")).Build(append(opts, agentgraph.WithDescription("Writes reports"))...))
	r := must.Get(runner.New(llmAgent(t, s, "support", llmagent.WithSubAgents(report)), sessiontest.Memory(t)))
	return func(text string) (said []string) {
		for e, err := range r.Run(context.Background(), session.ID("s"), llm.UserText(text)) {
			require.NoError(t, err)
			if e.Scope == "" && e.Text() != "" {
				said = append(said, e.Agent+": "+e.Text())
			}
		}
		return said
	}
}
