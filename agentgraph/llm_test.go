package agentgraph_test

import (
	"context"
	"encoding/json"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// TestEqualCallIDs: endpoints that count give calls of agents that run side by side the
// same id. Each call gets its own result, also one that the runner answers in the
// write that has the call.
func TestEqualCallIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := sideBySide(t, 6, func(i int) agent.Agent {
			return must.Get(agent.New(id(i), "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
				return func(yield func(*event.Event, error) bool) {
					yield(&event.Event{ID: "call_1", Data: &event.ToolCall{Name: "own", Input: json.RawMessage(`{}`)}, More: true}, nil)
				}
			}))
		})
		_, events, err := try(t, a, "go")
		require.NoError(t, err)
		calls := make(map[string]string)
		for _, e := range events {
			switch e.Data.(type) {
			case *event.ToolCall:
				require.NotContains(t, calls, e.ID)
				calls[e.ID] = e.RunID
			case *event.ToolResult:
				require.Equal(t, calls[e.ID], e.RunID, e.ID)
			}
		}
		require.Len(t, calls, 6)
		requireClosed(t, events, "limited")
	})
}

// TestGraphBehindTool: the output of a graph is the result of the tool that runs
// it.
func TestGraphBehindTool(t *testing.T) {
	s := &scene{}
	root := s.hasTool("root", "Done.", s.agentTool(s.inner("graph")))
	require.NoError(t, s.err)
	r := must.Get(runner.New(root, sessiontest.Memory(t)))
	output := ""
	for e, err := range r.Run(context.Background(), session.ID("s"), llm.UserText("go")) {
		require.NoError(t, err)
		if d, ok := e.Data.(*event.ToolResult); ok && e.Scope == "" {
			require.False(t, d.IsError)
			output = event.OutputText(d.Output)
		}
	}
	require.JSONEq(t, `{"left":{"side":"left"},"right":"right"}`, output)
}

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
