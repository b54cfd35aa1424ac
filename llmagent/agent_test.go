package llmagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
)

func nothing(tools.Context) (any, error) { return "nothing", nil }

func TestSettingsReachTheModel(t *testing.T) {
	zero, half, yes := 0.0, 0.5, true
	settings := llm.Settings{Temperature: &zero, TopP: &half, MaxTokens: 7, Stop: []string{"END"}, ToolChoice: "note", ParallelToolCalls: &yes,
		ResponseFormat: &llm.ResponseFormat{Name: "r", Schema: json.RawMessage(`{}`), Strict: true}}
	with := newSolo(t, nil, []llmagent.Option{llmagent.WithSettings(settings), llmagent.WithTools(tool(t, "note", nothing))})
	must.Get(with.say(context.Background()))
	require.Equal(t, settings, with.script.requests[0].Settings)
	require.False(t, with.script.requests[0].Stream)
	require.Equal(t, "Be kind.", with.script.requests[0].System, "nothing about transfers without targets")
	require.Len(t, with.script.requests[0].Tools, 1)

	without := newSolo(t, nil, []llmagent.Option{llmagent.WithSettings(settings)}, runner.WithStreaming())
	must.Get(without.say(context.Background()))
	got := without.script.requests[0]
	require.True(t, got.Stream)
	require.Empty(t, got.Tools)
	require.Empty(t, got.ToolChoice, "endpoints refuse a tool choice without tools")
	require.Nil(t, got.ParallelToolCalls)
	require.Equal(t, 7, got.MaxTokens)
}

// TestAForcedCallIsForcedOnce: a choice that forces calls would otherwise never let the model answer. The next run begins
// with it again; none and auto force nothing and stay.
func TestAForcedCallIsForcedOnce(t *testing.T) {
	for choice, then := range map[llm.ToolChoice]llm.ToolChoice{"required": "", "note": "", "auto": "auto", "none": "none"} {
		call := reply(scripted.Call("note", "{}"))
		s := newSolo(t, replies(call, call, reply(scripted.Text("Done.")), call), []llmagent.Option{
			llmagent.WithSettings(llm.Settings{ToolChoice: choice}), llmagent.WithTools(tool(t, "note", nothing))})
		for range 2 {
			must.Get(s.say(context.Background()))
		}
		var got []llm.ToolChoice
		for _, r := range s.script.requests {
			got = append(got, r.ToolChoice)
		}
		require.Equal(t, []llm.ToolChoice{choice, then, then, choice, then}, got)
	}
}

func TestInstructions(t *testing.T) {
	leaf := must.Get(llmagent.New("leaf", "", &model{}, llmagent.WithDescription("A leaf")))
	words := strings.NewReplacer(transfer.ToolPlaceholder, agent.TransferTool, transfer.TargetsPlaceholder, "- leaf: A leaf", transfer.SelfPlaceholder, "root").Replace(transfer.DefaultForm(transfer.OneTool).Begun.Targets)
	for _, c := range []struct {
		text string
		opts []llmagent.Option
		want string
	}{
		{"", nil, words},
		{"Do {this} %s.", nil, "Do {this} %s.\n\n" + words},
		{"Do.", []llmagent.Option{llmagent.WithTransferInstruction("Hand over.")}, "Do.\n\nHand over."},
		{"{tool} {targets}", []llmagent.Option{llmagent.WithTransferInstruction("Call {tool} for:\n{targets}\n{else}")},
			"{tool} {targets}\n\nCall transfer_to_agent for:\n- leaf: A leaf\n{else}"},
		{"Do.", []llmagent.Option{llmagent.WithTransferInstruction("")}, "Do."},
		{"Unused.", []llmagent.Option{llmagent.WithInstructionFunc(func(_ context.Context, inv *agent.Invocation) (string, error) {
			return "I am " + inv.Agent().Name() + " at " + inv.Node().Path, nil
		})}, "I am root at root\n\n" + words},
	} {
		m := &model{}
		root := must.Get(llmagent.New("root", c.text, m, append(c.opts, llmagent.WithTransferTools(transfer.OneTool), llmagent.WithSubAgents(leaf), llmagent.WithTools(tool(t, "note", nothing)))...))
		r := must.Get(runner.New(root, sessiontest.Memory(t)))
		s := &solo{t: t, runner: r, script: m}
		must.Get(s.say(context.Background()))
		require.Equal(t, c.want, m.requests[0].System)
		require.Equal(t, agent.TransferTool, m.requests[0].Tools[1].Name, "the transfer tool is the last")
	}
}

func TestAnInstructionFuncThatFails(t *testing.T) {
	broken := errors.New("the template is broken")
	fail := true
	s := newSolo(t, nil, []llmagent.Option{llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) {
		if fail {
			return "", broken
		}
		return "Better.", nil
	})})
	events, err := s.say(context.Background())
	require.ErrorIs(t, err, broken)
	require.Equal(t, "solo", must.As[*agent.RunError](err).Agent)
	require.Empty(t, s.script.requests, "the model is not asked")
	require.Contains(t, payloads[*event.Failure](events)[0].Message, "instructions: the template is broken")
	require.Equal(t, event.FinishReasonError, payloads[*event.HarnessEnd](events)[0].FinishReason)
	fail = false
	_, err = s.say(context.Background())
	require.NoError(t, err, "the session stays usable")
	require.Equal(t, "Better.", s.script.requests[0].System)
}

func TestUsageAndModelName(t *testing.T) {
	s := newSolo(t, replies(reply(scripted.Text("a")), reply(scripted.Text("b"), scripted.Usage(5, 3, 2), scripted.ModelName("real-2026"))), nil)
	for _, want := range []event.Usage{{Model: "configured"}, {InputTokens: 5, OutputTokens: 3, CachedTokens: 2, Model: "real-2026"}} {
		events := must.Get(s.say(context.Background()))
		require.Equal(t, []*event.Usage{&want}, payloads[*event.Usage](events), "one usage closes every answer")
	}
}

func TestAnswersWithoutWordsThatSayWhy(t *testing.T) {
	s := newSolo(t, replies(reply(scripted.Think("Let me ", "see."), scripted.Finish(llm.FinishLength)), reply(scripted.Finish(llm.FinishLength)), reply(scripted.Text("half"), scripted.Finish(llm.FinishLength)),
		reply(scripted.Finish(llm.FinishContentFilter)), reply(scripted.Text(" "), scripted.Finish(llm.FinishContentFilter))), nil)
	for _, want := range []event.FinishReason{event.FinishReasonLength, event.FinishReasonLength, event.FinishReasonLength, event.FinishReasonContentFilter, event.FinishReasonContentFilter} {
		events := must.Get(s.say(context.Background()))
		require.Equal(t, want, payloads[*event.HarnessEnd](events)[0].FinishReason)
		require.Len(t, payloads[*event.Usage](events), 1)
	}
	require.Equal(t, "Let me see.", payloads[*event.Reasoning](s.log())[0].Content)
	_, err := s.say(context.Background())
	require.NoError(t, err, "answers without words leave no empty message behind")
	require.Len(t, s.script.requests[5].Messages, 7, "six of the user, one answer")
}

// TestCallIDs: the runner names the calls, whatever ids a model gives.
func TestCallIDs(t *testing.T) {
	long, ctrl := strings.Repeat("x", 65), "a\nb"
	s := newSolo(t, replies(
		reply(scripted.CallID("c1", "note", "{}"), scripted.CallID("c1", "note", "{}"), scripted.CallID(long, "note", "{}"), scripted.CallID(ctrl, "note", "{}"),
			scripted.CallID("é", "note", "{}"), scripted.CallID(" ", "note", "{}"), scripted.CallID("call/1:2", "note", "{}")),
		reply(scripted.CallID("c1", "note", "{}"))),
		[]llmagent.Option{llmagent.WithTools(tool(t, "note", nothing))})
	events := must.Get(s.say(context.Background()))
	got := ids[*event.ToolCall](events)
	require.Len(t, got, 8)
	seen := make(map[string]bool)
	for _, id := range got {
		require.False(t, seen[id])
		seen[id] = true
		require.NotContains(t, []string{"", " ", "é", long, ctrl, "c1", "call/1:2"}, id)
	}
	require.ElementsMatch(t, got, ids[*event.ToolResult](events))
}

func TestOddCalls(t *testing.T) {
	huge := `{"text":"` + strings.Repeat("ä", 1<<20) + `"}`
	for _, c := range []struct {
		name, tool, args string
		stored, input    string
		result           string
	}{
		{"a space in the name", "no te", `{"a":1}`, "malformed_tool_name", `{"arguments":"{\"a\":1}","name":"no te"}`, `there is no tool "no te". The tools: note`},
		{"no name", "", ``, "malformed_tool_name", `{"arguments":"","name":""}`, "there is no tool"},
		{"bad bytes", "\xff\xfe", `{}`, "malformed_tool_name", `{"arguments":"{}","name":"�"}`, "there is no tool"},
		{"a long name", strings.Repeat("n", 65), `{}`, "malformed_tool_name", `{"arguments":"{}","name":"` + strings.Repeat("n", 65) + `"}`, "there is no tool"},
		{"an unknown tool", "nota", `{}`, "nota", `{}`, `there is no tool "nota". The tools: note`},
		{"no arguments", "note", ``, "note", `{}`, "nothing"},
		{"spaces around", "note", " {} \n", "note", `{}`, "nothing"},
		{"no object", "note", `[1]`, "note", `{"raw":"[1]"}`, "not a JSON object"},
		{"no JSON", "note", `{"a":`, "note", `{"raw":"{\"a\":"}`, "not a JSON object"},
		{"a string of JSON", "note", `"{}"`, "note", `{"raw":"\"{}\""}`, "not a JSON object"},
		{"huge", "note", huge, "note", huge, "do not fit the schema"},
		{"huge, no JSON", "note", huge[1:], "note", "", "not a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSolo(t, replies(reply(scripted.Call(c.tool, c.args))), []llmagent.Option{llmagent.WithTools(tool(t, "note", nothing))})
			events := must.Get(s.say(context.Background()))
			call := payloads[*event.ToolCall](events)[0]
			require.Equal(t, c.stored, call.Name)
			if c.input != "" {
				require.Equal(t, c.input, string(call.Input))
			}
			result := payloads[*event.ToolResult](events)[0]
			require.Contains(t, event.OutputText(result.Output), c.result)
			require.Less(t, len(result.Output), 1000, "what the model wrote does not come back at length")
			require.Len(t, s.script.requests, 2, "the model reads what was wrong and goes on")
		})
	}
}

func TestManyCallsInOneAnswer(t *testing.T) {
	items := make([]scripted.Item, 201)
	for i := range items {
		items[i] = scripted.Call("note", "{}")
	}
	s := newSolo(t, replies(reply(items[:200]...)), []llmagent.Option{llmagent.WithTools(tool(t, "note", nothing))})
	events, err := s.say(context.Background())
	require.NoError(t, err)
	require.Len(t, payloads[*event.ToolResult](events), 200)
	require.Len(t, s.script.requests[1].Messages, 1+1+200)

	s = newSolo(t, replies(reply(items...)), []llmagent.Option{llmagent.WithTools(tool(t, "note", nothing))})
	events, err = s.say(context.Background())
	require.ErrorIs(t, err, agent.ErrLimit)
	for _, r := range payloads[*event.ToolResult](events) {
		require.True(t, r.IsError)
		require.Contains(t, string(r.Output), "not executed")
	}
	require.Len(t, payloads[*event.ToolResult](events), 201, "every call is answered, so that the next turn works")
	must.Get(s.say(context.Background()))
}

func TestConstruction(t *testing.T) {
	note := tool(t, "note", nothing)
	for name, c := range map[string]struct {
		agent string
		model llm.Model
		opts  []llmagent.Option
		want  string
	}{
		"name":         {"a b", &model{}, nil, "only letters"},
		"model":        {"a", nil, nil, "the model is nil"},
		"nil option":   {"a", &model{}, []llmagent.Option{llmagent.WithTools(note), nil, nil}, "option 1 is nil"},
		"nil tool":     {"a", &model{}, []llmagent.Option{llmagent.WithTools(note, nil)}, "tool 1 is nil"},
		"two tools":    {"a", &model{}, []llmagent.Option{llmagent.WithTools(note, note)}, `two tools have the name "note"`},
		"reserved":     {"a", &model{}, []llmagent.Option{llmagent.WithTools(tool(t, agent.TransferTool, nothing))}, "reserved"},
		"nil child":    {"a", &model{}, []llmagent.Option{llmagent.WithSubAgents(nil)}, "sub-agent 0 is nil"},
		"failed child": {"a", &model{}, []llmagent.Option{llmagent.WithSubAgents((*llmagent.Agent)(nil))}, "sub-agent 0 is nil"},
		"instructions": {"a", &model{}, []llmagent.Option{llmagent.WithInstructionFunc(nil)}, "instruction function is nil"},
		"parallel":     {"a", &model{}, []llmagent.Option{llmagent.WithParallelTools(0)}, "at least 1"},
	} {
		a, err := llmagent.New(c.agent, "", c.model, c.opts...)
		require.Nil(t, a, name)
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, fmt.Sprintf("agent %q", c.agent), name)
	}
	_, err := llmagent.New("a", "", nil, nil, llmagent.WithParallelTools(0))
	for _, want := range []string{"option 0 is nil", "the model is nil", "at least 1"} {
		require.ErrorContains(t, err, want, "all problems at once")
	}
	m := &model{}
	a := must.Get(llmagent.New("a", "", m, llmagent.WithToolPolicy(nil), llmagent.WithTools(note), llmagent.WithDescription("d")))
	require.Same(t, m, a.Model())
	require.Equal(t, []tools.Tool{note}, a.Tools())
	require.Equal(t, "d", a.Description())
	require.Nil(t, a.FindAgent("b"))
	require.Equal(t, agent.Agent(a), a.FindAgent("a"))
}
