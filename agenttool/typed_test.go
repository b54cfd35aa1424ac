package agenttool_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

type question struct {
	Order int `json:"order" jsonschema:"minimum=1"`
}

type verdict struct {
	Refund bool    `json:"refund"`
	Amount float64 `json:"amount,omitempty"`
}

func typed[Out any](t testing.TB, a agent.Agent, opts ...agenttool.Option) tools.Tool {
	t.Helper()
	return must.Get(agenttool.NewTyped[question, Out](a, opts...))
}

func TestTyped(t *testing.T) {
	for name, c := range map[string]struct {
		answer, output string
		failed         bool
	}{
		"JSON":         {`{"refund": true, "amount": 19}`, `{"refund":true,"amount":19}`, false},
		"fenced":       {"```json\n{\"refund\": false}\n```", `{"refund":false}`, false},
		"words":        {"Yes, refund it.", "the answer of the agent clerk is not what was asked for: ", true},
		"another type": {`{"refund": "yes"}`, "/refund: got string, want boolean", true},
		"missing":      {`{"amount": 1}`, "refund", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New(scripted.WithRecording()).
				Add("support", scripted.Reply(scripted.CallID("c0", "clerk", `{"order":0}`)), scripted.Reply(scripted.CallID("c1", "clerk", `{"order":42}`)), scripted.Reply(scripted.Text("Done."))).
				Add("clerk", scripted.Reply(scripted.Text(c.answer)))
			support := newAgent(t, s, "support", llmagent.WithTools(typed[verdict](t, newAgent(t, s, "clerk"))))
			store := sessiontest.Memory(t)
			events := must.Get(turn(t, newRunner(t, support, store), store, "Refund order 42"))
			require.Contains(t, event.OutputText(result(t, events, "c1").Output), "/order")
			require.Equal(t, []llm.Message{llm.UserText(`{"order":42}`)}, s.Requests("clerk")[0].Messages)
			res := result(t, events, "c2")
			require.Equal(t, c.failed, res.IsError)
			require.Contains(t, event.OutputText(res.Output), c.output)
		})
	}
}

func TestTypedWithOtherOutputs(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.CallID("c1", "words", `{"order":1}`), scripted.CallID("c2", "list", `{"order":1}`), scripted.CallID("c3", "bad", `{"order":1}`)),
			scripted.Reply(scripted.Text("Done."))).
		Add("words", scripted.Reply(scripted.Text("No."))).Add("list", scripted.Reply(scripted.Text(`["a", "b"]`))).Add("bad", scripted.Reply(scripted.Text(`{"a": 1}`)))
	support := newAgent(t, s, "support", llmagent.WithTools(typed[string](t, newAgent(t, s, "words")), typed[[]string](t, newAgent(t, s, "list")), typed[[]string](t, newAgent(t, s, "bad"))))
	store := sessiontest.Memory(t)
	events := must.Get(turn(t, newRunner(t, support, store), store, "Hello"))
	require.Equal(t, `"No."`, string(result(t, events, "c1").Output))
	require.Equal(t, `["a","b"]`, string(result(t, events, "c2").Output))
	require.True(t, result(t, events, "c3").IsError)
	_, err := agenttool.NewTyped[string, string](newAgent(t, s, "x"))
	require.Error(t, err, "arguments are an object")
}

// TestHistory: the agent sees the conversation up to the call, beside its input.
func TestHistory(t *testing.T) {
	s := scripted.New(scripted.WithRecording()).
		Add("support", scripted.Reply(scripted.Text("Let me look. "), scripted.CallID("c0", "plain", `{"input":"x"}`)),
			scripted.Reply(scripted.Text("And there. "), scripted.CallID("c1", "research", `{"input":"find it"}`), scripted.CallID("c2", "research", `{"input":"find more"}`)),
			scripted.Reply(scripted.Text("Done."))).
		Add("plain", scripted.Reply(scripted.Text("Nothing."))).
		Add("research", scripted.Reply(scripted.Text("One.")), scripted.Reply(scripted.Text("Two.")))
	support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "plain")), newTool(t, newAgent(t, s, "research"), agenttool.WithHistory(view.Full()))))
	store := sessiontest.Memory(t)
	must.Get(turn(t, newRunner(t, support, store), store, "My secret word is heron."))
	require.Equal(t, []llm.Message{llm.UserText("x")}, s.Requests("plain")[0].Messages)
	for _, req := range s.Requests("research") {
		require.Equal(t, []llm.Message{llm.UserText("My secret word is heron."), llm.UserText("[support] Let me look. "),
			llm.UserText(`[support] called plain({"input":"x"}): Nothing.`), llm.UserText("[support] And there. ")}, req.Messages[:4])
		require.Contains(t, []string{"find it", "find more"}, req.Messages[4].PlainText())
	}
	require.Contains(t, string(newTool(t, newAgent(t, s, "research"), agenttool.WithHistory(view.Own())).Info().Parameters), "sees this conversation too")
}

// TestMaxDepth: an agent that calls itself comes to an end.
func TestMaxDepth(t *testing.T) {
	for _, most := range []int{1, 3, 0} {
		var opts []agenttool.Option
		if most > 0 {
			opts = append(opts, agenttool.WithMaxDepth(most))
		}
		var self tools.Tool
		ran := 0
		again := must.Get(tools.Func("again", "Calls its own agent.", func(ctx tools.Context, _ struct{}) (any, error) {
			return self.Call(ctx, []byte(`{"input":"deeper"}`))
		}, tools.Timeout(-1)))
		deep := must.Get(llmagent.New("deep", "", scripted.Func("deep", func(req *llm.Request) scripted.Answer {
			if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleTool {
				return scripted.Reply(scripted.Text("So " + last.Parts[0].(llm.ToolResult).Output))
			}
			ran++
			return scripted.Reply(scripted.Call("again", "{}"))
		}), llmagent.WithTools(again)))
		self = newTool(t, deep, opts...)
		s := scripted.New().Add("support", scripted.Reply(scripted.CallID("c1", "deep", `{"input":"go"}`)), scripted.Reply(scripted.Text("Done.")))
		store := sessiontest.Memory(t)
		events := must.Get(turn(t, newRunner(t, newAgent(t, s, "support", llmagent.WithTools(self)), store), store, "Hello"))
		want := most
		if most == 0 {
			want = 8
		}
		require.Equal(t, want, ran)
		require.Contains(t, event.OutputText(result(t, events, "c1").Output), fmt.Sprintf("deep is already nested in %d calls of agents, and the limit is %d", want, want-1))
	}
	says := must.Get(agent.New("f", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) {}
	}))
	_, err := agenttool.New(says, agenttool.WithMaxDepth(0))
	require.ErrorContains(t, err, "depth")
}
