package telemetry_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
)

func TestATransfer(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.Usage(20, 5, 0), to("billing"))).
		Add("billing", scripted.Reply(scripted.Usage(30, 7, 10), scripted.Call("refund", `{}`)),
			scripted.Reply(scripted.Usage(40, 9, 30), scripted.ModelName("billing-2026"), scripted.Text("Refunded.")))
	billing := newAgent(t, s, "billing", llmagent.WithTools(newTool(t, "refund", ok)))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithSubAgents(billing)), nil)
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, `invoke_workflow support
  invoke_agent support transfer -> billing
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent billing stop
    chat billing tool_calls
    execute_tool refund
    chat billing stop
`, b.tree())
	require.False(t, b.one("invoke_agent support").EndTime().After(b.one("invoke_agent billing").StartTime()), "one agent is in charge at a time")

	require.Equal(t, map[string]string{"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "support", "gen_ai.conversation.id": "s1",
		"arbor.turn.id": "an id", "arbor.turn.finish_reason": "stop"}, attributes(b.one("invoke_workflow support")))
	require.Equal(t, map[string]string{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "billing", "gen_ai.agent.id": "support/billing",
		"gen_ai.agent.description": "Does billing", "gen_ai.conversation.id": "s1", "gen_ai.provider.name": "openai", "gen_ai.request.model": "billing",
		"gen_ai.response.finish_reasons": `["stop"]`, "gen_ai.usage.input_tokens": "70", "gen_ai.usage.output_tokens": "16",
		"gen_ai.usage.cache_read.input_tokens": "40", "arbor.run.id": "an id"}, attributes(b.one("invoke_agent billing")))
	require.Equal(t, map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund", "gen_ai.tool.type": "function",
		"gen_ai.tool.call.id": "an id", "gen_ai.agent.name": "billing", "gen_ai.conversation.id": "s1"}, attributes(b.one("execute_tool refund")))
	last := b.named("chat billing")[1]
	require.Equal(t, map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "billing",
		"gen_ai.response.model": "billing-2026", "gen_ai.conversation.id": "s1", "gen_ai.response.finish_reasons": `["stop"]`,
		"gen_ai.usage.input_tokens": "40", "gen_ai.usage.output_tokens": "9", "gen_ai.usage.cache_read.input_tokens": "30"}, attributes(last))
	require.Equal(t, trace.SpanKindClient, last.SpanKind())
	for _, other := range []string{"invoke_workflow support", "invoke_agent billing", "execute_tool refund"} {
		require.Equal(t, trace.SpanKindInternal, b.one(other).SpanKind(), other)
	}
	require.Equal(t, "https://opentelemetry.io/schemas/1.41.0", last.InstrumentationScope().SchemaURL)

	require.Equal(t, map[string][]string{
		"gen_ai.client.operation.duration in s": {
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=billing,gen_ai.response.model=billing-2026: 1 times",
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=billing: 1 times",
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=support: 1 times"},
		"gen_ai.client.token.usage in {token}": {
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=billing,gen_ai.response.model=billing-2026,gen_ai.token.type=input: 1 times, sum 40",
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=billing,gen_ai.response.model=billing-2026,gen_ai.token.type=output: 1 times, sum 9",
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=billing,gen_ai.token.type=input: 1 times, sum 30",
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=billing,gen_ai.token.type=output: 1 times, sum 7",
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=support,gen_ai.token.type=input: 1 times, sum 20",
			"gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=support,gen_ai.token.type=output: 1 times, sum 5"},
	}, b.measured())
}

func TestAgentsInAgents(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.Call("desk", `{"input":"look into it"}`)), scripted.Reply(scripted.Text("All done."))).
		Add("desk", scripted.Reply(scripted.Call("lookup", `{}`)), scripted.Reply(to("clerk"))).
		Add("clerk", scripted.Reply(scripted.Call("archive", `{"input":"find it"}`)), scripted.Reply(scripted.Text("Found."))).
		Add("archive", scripted.Reply(scripted.Text("Here.")))
	archive := newAgent(t, s, "archive")
	clerk := newAgent(t, s, "clerk", llmagent.WithTools(agentTool(t, archive)))
	desk := newAgent(t, s, "desk", llmagent.WithSubAgents(clerk), llmagent.WithTools(newTool(t, "lookup", ok)))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(agentTool(t, desk))), nil)
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    execute_tool desk
      invoke_agent desk transfer -> clerk
        chat desk tool_calls
        execute_tool lookup
        chat desk tool_calls
      execute_tool transfer_to_agent
      invoke_agent clerk stop
        chat clerk tool_calls
        execute_tool archive
          invoke_agent archive stop
            chat archive stop
        chat clerk stop
    chat support stop
`, b.tree())
	require.False(t, b.one("invoke_agent desk").EndTime().After(b.one("invoke_agent clerk").StartTime()), "also inside")
}
