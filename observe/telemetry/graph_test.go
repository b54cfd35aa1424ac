package telemetry_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/session"
)

// Every node of a graph has a span below that of the graph, also if the graph is
// itself a node; the calls of its model are below it.
func TestNodesOfGraphs(t *testing.T) {
	s := scripted.New().Add("writer", scripted.Reply(scripted.Text("Written."))).Add("judge", scripted.Reply(scripted.Text("Good.")))
	plain := must.Get(agent.New("plain", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Finish{Output: []byte("1")}}, nil)
		}
	}))
	inner := must.Get(agentgraph.NewBuilder("review").Node("first", plain).Node("judge", newAgent(t, s, "judge")).Edge("first", "judge").Build())
	graph := must.Get(agentgraph.NewBuilder("article").Node("writer", newAgent(t, s, "writer")).Node("check", inner).Node("count", plain).
		Edge("writer", "check").Edge("writer", "count").Build())
	b := newBench(t, graph, nil)
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, `invoke_workflow article
  invoke_agent article stop
    invoke_agent writer stop
      chat writer stop
    invoke_agent check stop
      invoke_agent first stop
      invoke_agent judge stop
        chat judge stop
    invoke_agent count stop
`, b.tree())
	require.Zero(t, b.spans.open())
	require.Equal(t, []string{
		"arbor.graph.name=article,gen_ai.agent.name=check: 1 times", "arbor.graph.name=article,gen_ai.agent.name=count: 1 times",
		"arbor.graph.name=article,gen_ai.agent.name=writer: 1 times", "arbor.graph.name=check,gen_ai.agent.name=first: 1 times",
		"arbor.graph.name=check,gen_ai.agent.name=judge: 1 times"}, b.measured()["arbor.graph.node.duration in s"])
}
