package render

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/view"
)

func silent(t *testing.T, name string) agent.Agent {
	t.Helper()
	a, err := agent.New(name, "The agent "+name, func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) {}
	})
	require.NoError(t, err)
	return a
}

func TestAgents(t *testing.T) {
	one, two := silent(t, "one"), silent(t, "two")
	graph, err := agentgraph.NewBuilder("steps").Node("first", silent(t, "first")).Node("last", silent(t, "last")).Edge("first", "last").Build()
	require.NoError(t, err)
	first := router.Specialist(agent.Via(one, view.LastTurns(3), agent.HideReason(), agent.OnError("two")))
	second := router.Specialist(two)
	front, err := router.New("front", router.Rules(router.When(router.Keyword("rain")).To(first), router.When(router.WantsHuman()).ToHuman("asked for"),
		router.When(router.Keyword("steps")).To(router.Specialist(graph))), router.Default(second))
	require.NoError(t, err)
	tree, err := agent.NewTree(front, agent.WithHuman(human.NewAgent(human.Log{})))
	require.NoError(t, err)
	data, err := json.Marshal(AgentsOf(tree))
	require.NoError(t, err)
	require.JSONEq(t, `{"root": {"name": "front", "path": "front", "kind": "router", "targets": ["one", "steps", "two", "human"],
		"router": {"rules": [{"index": 0, "when": "keyword(\"rain\")", "to": "one"}, {"index": 1, "when": "wantsHuman()", "to": "human", "reason": "asked for"},
			{"index": 2, "when": "keyword(\"steps\")", "to": "steps"}], "default": "two", "sticky": false, "onError": {"one": "two"}}, "subAgents": [
			{"name": "one", "path": "front/one", "kind": "agent", "description": "The agent one", "targets": ["human"], "edge": {"history": "last_turns:3", "hideReason": true, "onError": "two"}},
			{"name": "steps", "path": "front/steps", "kind": "graph", "entrypoint": "first", "nodes": [{"id": "first", "agentRef": "first"}, {"id": "last", "agentRef": "last"}], "edges": [{"from": "first", "to": "last"}]},
			{"name": "two", "path": "front/two", "kind": "agent", "description": "The agent two", "targets": ["human"]}]},
		"human": {"name": "human", "path": "human", "kind": "human", "description": "A person. Hand over to them if the user asks for a person, or if nobody else here can help."}}`, string(data))

	p, err := Drawing(tree.Root())
	require.NoError(t, err)
	var drawn []string
	for _, l := range p.Lines {
		drawn = append(drawn, fmt.Sprint(p.Boxes[l.From].ID, " → ", p.Boxes[l.To].ID, " ", l.Text))
	}
	require.Equal(t, []string{`front → one [0 keyword("rain")]`, "front → steps [2 keyword(\"steps\")]", "front → two [else]", "front → human [1 wantsHuman()]"}, drawn)
	p, err = Drawing(tree.Node("steps"))
	require.NoError(t, err)
	require.Equal(t, "first", p.Boxes[0].ID)
	_, err = Drawing(tree.Node("one"))
	require.ErrorIs(t, err, ErrNoDrawing)
}
