package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/telemetry"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// secrets are words that are part of what somebody says: each turn of confide
// holds all of them.
var secrets = []string{"user-words", "system-words", "reasoning-words", "half-words", "argument-words", "result-words", "failure-words", "task-words",
	"inner-words", "answer-words", "reason-words", "last-words", "model-error-words", "person-name", "stop-words", "progress-words", "state-words"}

// confide runs a turn in which every place that can hold content holds some, and
// one that a model's error ends.
func confide(t *testing.T, opts ...telemetry.Option) *bench {
	t.Helper()
	s := scripted.New().
		Add("support",
			scripted.Reply(scripted.Text("half-words"), scripted.Cut()),
			scripted.Reply(scripted.Think("reasoning-words"), scripted.Text("answer-words"), scripted.Usage(10, 1, 0),
				scripted.Call("refund", `{"secret":"argument-words"}`), scripted.Call("fail", `{}`), scripted.Call("desk", `{"input":"task-words"}`)),
			scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing","reason":"reason-words"}`))).
		Add("desk", scripted.Reply(scripted.Text("inner-words"))).
		Add("billing", scripted.Reply(scripted.Text("last-words")),
			scripted.Reply(scripted.Fail(&llm.Error{Code: llm.CodeServer, Status: 500, Message: "model-error-words"})))
	refund := newTool(t, "refund", func(ctx tools.Context) (string, error) {
		ctx.Progress("progress-words")
		ctx.Set("key", "state-words")
		return "result-words", nil
	})
	fail := newTool(t, "fail", func(tools.Context) (string, error) { return "", errors.New("failure-words") })
	desk := newAgent(t, s, "desk")
	support := must.Get(llmagent.New("support", "system-words", s.Model("support"), llmagent.WithTools(refund, fail, agentTool(t, desk)),
		llmagent.WithSubAgents(newAgent(t, s, "billing")), llmagent.WithSettings(llm.Settings{Stop: []string{"stop-words"}})))
	b := newBench(t, support, opts, runner.WithStreaming())
	key := session.Key{App: "app", User: "person-name", ID: "s1"}
	for _, wrong := range []bool{false, true} {
		_, err := collect(b.runner.Run(context.Background(), key, llm.UserText("user-words")))
		require.Equal(t, wrong, err != nil, "%v", err)
	}
	require.NoError(t, s.Done())
	return b
}

func TestNoContentByDefault(t *testing.T) {
	all := confide(t).everything()
	require.Contains(t, all, "invoke_workflow support")
	require.Contains(t, all, "server_error")
	for _, word := range secrets {
		require.NotContains(t, all, word)
	}
}

func TestContent(t *testing.T) {
	b := confide(t, telemetry.WithContent())
	all := b.everything()
	for _, word := range secrets {
		switch word {
		case "stop-words", "progress-words", "state-words", "failure-words": // the last one below
		default:
			require.Contains(t, all, word)
		}
	}
	turn := b.named("invoke_workflow support")[0]
	require.Equal(t, "person-name", attr(turn, "user.id").AsString())
	requireMessages(t, `[{"role":"user","parts":[{"type":"text","content":"user-words"}]}]`, attr(turn, "gen_ai.input.messages").AsString())
	requireMessages(t, `[{"role":"assistant","parts":[{"type":"text","content":"last-words"}],"finish_reason":"stop"}]`, attr(turn, "gen_ai.output.messages").AsString())

	chat := b.named("chat support")[1]
	require.Contains(t, attr(chat, "gen_ai.system_instructions").AsString(), `[{"type":"text","content":"system-words`)
	requireMessages(t, `[{"role":"user","parts":[{"type":"text","content":"user-words"}]}]`, attr(chat, "gen_ai.input.messages").AsString())
	requireMessages(t, `[{"role":"assistant","parts":[{"type":"reasoning","content":"reasoning-words"},{"type":"text","content":"answer-words"},
		{"type":"tool_call","id":"call_support_1","name":"refund","arguments":{"secret":"argument-words"}},
		{"type":"tool_call","id":"call_support_2","name":"fail","arguments":{}},
		{"type":"tool_call","id":"call_support_3","name":"desk","arguments":{"input":"task-words"}}],"finish_reason":"tool_calls"}]`,
		attr(chat, "gen_ai.output.messages").AsString())
	refund := b.one("execute_tool refund")
	require.Contains(t, attr(b.named("chat support")[2], "gen_ai.input.messages").AsString(),
		`{"role":"tool","parts":[{"type":"tool_call_response","id":"`+attr(refund, "gen_ai.tool.call.id").AsString()+`","name":"refund","response":"result-words"}]}`)
	require.JSONEq(t, `{"secret":"argument-words"}`, attr(refund, "gen_ai.tool.call.arguments").AsString())
	require.JSONEq(t, `"result-words"`, attr(refund, "gen_ai.tool.call.result").AsString())
	require.JSONEq(t, `"failure-words"`, attr(b.one("execute_tool fail"), "gen_ai.tool.call.result").AsString())
	require.Contains(t, b.named("chat billing")[1].Status().Description, "model-error-words")
	require.Contains(t, b.named("invoke_workflow support")[1].Status().Description, "model-error-words")
}

func requireMessages(t *testing.T, want, got string) {
	t.Helper()
	require.True(t, json.Valid([]byte(got)), got)
	require.JSONEq(t, want, got)
}

// Bytes of images are never recorded; a URL and the kind are.
func TestMediaContent(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(scripted.Text("A cat.")))
	b := newBench(t, newAgent(t, s, "support"), []telemetry.Option{telemetry.WithContent()})
	must.Get(collect(b.runner.Run(context.Background(), session.ID("s1"), llm.UserParts(llm.TextPart{Text: "What is this?"},
		llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte("picture")},
		llm.Media{Kind: llm.MediaFile, MediaType: "application/pdf", URL: "https://example.com/a.pdf"}))))
	want := `[{"role":"user","parts":[{"type":"text","content":"What is this?"},{"type":"media","modality":"image","mime_type":"image/png","bytes":7},
		{"type":"uri","modality":"file","mime_type":"application/pdf","uri":"https://example.com/a.pdf"}]}]`
	requireMessages(t, want, attr(b.one("chat support"), "gen_ai.input.messages").AsString())
	requireMessages(t, want, attr(b.one("invoke_workflow support"), "gen_ai.input.messages").AsString())
}

// What a model calls arguments may be no JSON: it is then recorded as a string.
func TestBrokenArguments(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(scripted.Call("refund", `{"sec`)), scripted.Reply(scripted.Text("Sorry.")))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(newTool(t, "refund", ok))), []telemetry.Option{telemetry.WithContent()})
	must.Get(b.say(context.Background(), session.ID("s1")))
	requireMessages(t, `[{"role":"assistant","parts":[{"type":"tool_call","id":"call_support_1","name":"refund","arguments":"{\"sec"}],"finish_reason":"tool_calls"}]`,
		attr(b.named("chat support")[0], "gen_ai.output.messages").AsString())
}

// The turn's answer is what was said in the conversation, not what an agent
// said to another one.
func TestATurnWithoutAnAnswer(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(scripted.Call("desk", `{"input":"look"}`)), scripted.Reply(scripted.Finish(llm.FinishLength))).Add("desk", scripted.Reply(scripted.Text("Found.")))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(agentTool(t, newAgent(t, s, "desk")))), []telemetry.Option{telemetry.WithContent()})
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.NotContains(t, attributes(b.one("invoke_workflow support")), "gen_ai.output.messages")
}

// Spans that are not sampled cost no content.
func TestUnsampledTurns(t *testing.T) {
	s := scripted.New().Always("support", scripted.Reply(scripted.Usage(3, 2, 0), scripted.Text("Hello.")))
	b := newBench(t, newAgent(t, s, "support"), nil)
	i := must.Get(telemetry.New(telemetry.WithContent(), telemetry.WithTracerProvider(unsampled(b)), telemetry.WithMeterProvider(meters(b))))
	b.use(newAgent(t, s, "support"), i)
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Empty(t, b.spans.Ended())
	require.Len(t, b.measured()["gen_ai.client.token.usage in {token}"], 2, "metrics do not depend on sampling: "+fmt.Sprint(b.measured()))
}
