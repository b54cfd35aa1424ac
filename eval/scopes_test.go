package eval_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/workflowagent"
)

func llmAgent(t *testing.T, model llm.Model, name string, opts ...llmagent.Option) agent.Agent {
	a, err := llmagent.New(name, "", model, opts...)
	require.NoError(t, err)
	return a
}

// TestInnerScopes: what agents do inside of tools, workflows and graphs is counted and called,
// but is no way of the conversation, and no words for the user.
func TestInnerScopes(t *testing.T) {
	lookup, err := tools.Func("lookup", "Looks.", func(tools.Context, struct{}) (string, error) { return "found", nil })
	require.NoError(t, err)
	build := func(script string, wrap func(inner agent.Agent) agent.Agent) agent.Agent {
		model := models(t, script)
		leaf := llmAgent(t, model("leaf"), "leaf", llmagent.WithTools(lookup), llmagent.WithDescription("knows"))
		return llmAgent(t, model("support"), "support", llmagent.WithSubAgents(wrap(llmAgent(t, model("inner"), "inner", llmagent.WithSubAgents(leaf)))))
	}
	const inner = "inner: \"secret\" call transfer_to_agent {\"agent_name\": \"leaf\"} usage=5/1\nleaf: call lookup usage=5/1\nleaf: \"the answer\" usage=5/1\n"

	t.Run("workflow", func(t *testing.T) {
		root := build("support: call transfer_to_agent {\"agent_name\": \"flow\"} usage=5/1\n"+inner+"support: \"back again\" usage=5/1", func(a agent.Agent) agent.Agent {
			flow, err := workflowagent.Sequential("flow", "Works", []agent.Agent{a})
			require.NoError(t, err)
			return flow
		})
		r := play(t, root, `turns:
- {say: a, path: support > flow, answers: flow, tools: lookup, says: the answer, saysNot: secret, max: {modelCalls: 4, tokens: 24, transfers: 1}}
- {say: b, path: support, answers: support}`)
		require.Empty(t, differs(r))
		require.Equal(t, []string{"lookup"}, r.Outcomes[0].Turns[0].Tools)
		require.Equal(t, 4, r.Outcomes[0].Turns[0].ModelCalls)
	})
	t.Run("graph", func(t *testing.T) {
		g, err := agentgraph.Load([]byte("apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: graph, version: 1.0.0}\nspec:\n  entrypoint: one\n  agents:\n    - {id: one, agentRef: inner}\n"), agentgraph.WithAnyRef())
		require.NoError(t, err)
		root := build("support: call transfer_to_agent {\"agent_name\": \"graph\"} usage=5/1\n"+inner, func(a agent.Agent) agent.Agent {
			graph, err := agentgraph.New(g, func(string, map[string]any) (agent.Agent, error) { return a, nil })
			require.NoError(t, err)
			return graph
		})
		r := play(t, root, "{say: a, path: support > graph, answers: graph, tools: lookup, says: the answer, saysNot: secret, max: {modelCalls: 4, transfers: 1}}")
		require.Empty(t, differs(r))
	})
	t.Run("agent tool", func(t *testing.T) {
		model := models(t, "support: call inner {\"input\": \"x\"} usage=5/1\n"+inner+"support: \"As I heard.\" usage=5/1\n")
		leaf := llmAgent(t, model("leaf"), "leaf", llmagent.WithTools(lookup), llmagent.WithDescription("knows"))
		ask, err := agenttool.New(llmAgent(t, model("inner"), "inner", llmagent.WithDescription("inside"), llmagent.WithSubAgents(leaf)))
		require.NoError(t, err)
		root := llmAgent(t, model("support"), "support", llmagent.WithTools(ask))
		r := play(t, root, "{say: a, path: support, answers: support, tools: [inner, lookup], says: /^as i heard.$/, max: {modelCalls: 5, tokens: 30}}")
		require.Empty(t, differs(r))
		require.Zero(t, r.Outcomes[0].Turns[0].Transfers)
		require.Equal(t, 5, r.Outcomes[0].Turns[0].ModelCalls)
	})
}

// TestRouters: a router is a step of the path, and its transfers are free.
func TestRouters(t *testing.T) {
	model := models(t, "billing: \"yes\"\ntech: call transfer_to_agent {\"agent_name\": \"billing\"}\nbilling: \"paid\"\n")
	peers := llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToPeers: true})
	billing := router.Specialist(llmAgent(t, model("billing"), "billing", llmagent.WithDescription("b"), peers))
	tech := router.Specialist(llmAgent(t, model("tech"), "tech", llmagent.WithDescription("t"), peers))
	root, err := router.New("front", router.Rules(router.When(router.Keyword("router")).To(tech)), router.Default(billing))
	require.NoError(t, err)
	r := play(t, root, "turns:\n- {say: my bill, path: front > billing}\n- {say: my router, path: front > tech > billing, answers: billing, max: {transfers: 1}}")
	require.Empty(t, differs(r))
	require.Equal(t, 0, r.Outcomes[0].Turns[0].Transfers)
	require.Equal(t, 1, r.Outcomes[0].Turns[1].Transfers)
	require.Equal(t, eval.Matrix{From: "front", Names: []string{"front", "billing", "tech"}, Counts: [][]int{{0, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, r.Summary().Edges[0])
}

// TestFallback: who goes on for an agent that failed has the conversation.
func TestFallback(t *testing.T) {
	model := models(t, "support: call transfer_to_agent {\"agent_name\": \"tech\"}\ntech: fault=status:400\nbilling: \"I go on.\"\n")
	root := llmAgent(t, model("support"), "support", llmagent.WithSubAgents(llmAgent(t, model("billing"), "billing"),
		agent.Via(llmAgent(t, model("tech"), "tech"), agent.OnError("billing"))))
	require.Empty(t, differs(play(t, root, "{say: a, path: support > tech > billing, answers: billing}")))
}

func TestCheck(t *testing.T) {
	refund, err := tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "done", nil })
	require.NoError(t, err)
	inner, err := agenttool.New(llmAgent(t, models(t, "")("inner"), "inner", llmagent.WithDescription("inside"), llmagent.WithTools(refund)))
	require.NoError(t, err)
	root := desk(t, models(t, ""), llmagent.WithTools(inner))
	cases := load(t, `
- say: a
  path: support > biling
  answers: teck
  tools: [refnd, inner]
- name: b
  turns:
    - {say: a, path: support > … > tech|billing|human, noTools: transfer_to_agent, asks: refund, approve: refund}
    - say: b
      path: support > nobody
      deny: x
      reply: {y: 1}
- {say: c, path: billing|tech}
- {say: d, path: … > inner}
- {say: e, path: tech > billing}
`)
	require.ElementsMatch(t, []string{
		`c:2: path: no agent of the tree has the name "biling"; did you mean "billing"?`,
		`c:2: answers: no agent of the tree has the name "teck"; did you mean "tech"?`,
		`c:2: tools: no tool of the tree has the name "refnd"; did you mean "refund"?`,
		`c:9: path: no agent of the tree has the name "nobody"; there are human, support, billing, tech`,
		`c:9: deny: no tool of the tree has the name "x"; there are transfer_to_agent, inner, refund`,
		`c:9: reply: no tool of the tree has the name "y"; there are transfer_to_agent, inner, refund`,
		`c:13: path: the first turn begins at support, so that billing|tech cannot come about: write support > billing|tech, or answers: billing|tech`,
		`c:14: path: no agent of the tree has the name "inner"; there are human, support, billing, tech`,
		`c:15: path: the first turn begins at support, so that tech > billing cannot come about: write support > tech > billing, or answers: billing`,
	}, problemsOf(t, eval.Check(cases, root)))

	function, err := agent.New("f", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil })
	require.NoError(t, err)
	require.NoError(t, eval.Check(load(t, "{say: a, tools: whatever, path: f}"), function), "a function may call what it likes")
	var tree *agent.TreeError
	require.ErrorAs(t, eval.Check(nil, nil), &tree)
}
