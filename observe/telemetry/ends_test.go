package telemetry_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// until takes a turn's events until one of them is enough.
func until(turn func(func(*event.Event, error) bool), enough func(*event.Event) bool) {
	for e, err := range turn {
		if err != nil || enough(e) {
			return
		}
	}
}

func TestBreakingOff(t *testing.T) {
	for name, c := range map[string]struct {
		enough func(*event.Event) bool
		want   string
	}{
		"in an answer": {func(e *event.Event) bool { return e.Partial }, `invoke_workflow support broken off
  invoke_agent support transfer -> billing
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent billing broken off
    chat billing broken off
`},
		"at the end of a run": {func(e *event.Event) bool { return e.Type() == event.TypeHarnessEnd }, `invoke_workflow support broken off
  invoke_agent support transfer -> billing
    chat support tool_calls
  execute_tool transfer_to_agent
`},
		"at the first event": {func(*event.Event) bool { return true }, `invoke_workflow support broken off
`},
		"at the answer": {func(e *event.Event) bool { return e.Text() != "" && !e.Partial }, `invoke_workflow support broken off
  invoke_agent support transfer -> billing
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent billing broken off
    chat billing stop
`},
		"when all is said": {func(e *event.Event) bool { return e.Type() == event.TypeHarnessEnd && e.Agent == "billing" }, `invoke_workflow support
  invoke_agent support transfer -> billing
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent billing stop
    chat billing stop
`},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New().Add("support", scripted.Reply(to("billing"))).Add("billing", scripted.Reply(scripted.Text("I see ", "two charges.")))
			b := newBench(t, newAgent(t, s, "support", llmagent.WithSubAgents(newAgent(t, s, "billing"))), nil, runner.WithStreaming())
			until(b.runner.Run(context.Background(), session.ID("s1"), llm.UserText(question)), c.enough)
			require.Equal(t, c.want, b.tree())
		})
	}
}

func TestStreaming(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(scripted.Text("I see ", "two charges.")))
	b := newBench(t, newAgent(t, s, "support"), nil, runner.WithStreaming())
	must.Get(b.say(context.Background(), session.ID("s1")))
	chat := b.one("chat support")
	require.True(t, attr(chat, "gen_ai.request.stream").AsBool())
	first := attr(chat, "gen_ai.response.time_to_first_chunk").AsFloat64()
	require.Positive(t, first)
	require.LessOrEqual(t, first, chat.EndTime().Sub(chat.StartTime()).Seconds())
	require.Len(t, b.measured()["gen_ai.client.operation.time_to_first_chunk in s"], 1)
	require.NotContains(t, b.measured(), "gen_ai.client.token.usage in {token}", "the endpoint told no usage")
}

func TestCancel(t *testing.T) {
	for name, c := range map[string]struct {
		cancel func(context.Context) (context.Context, context.CancelCauseFunc)
		class  string
	}{
		"by the caller":   {context.WithCancelCause, "canceled"},
		"by its deadline": {func(ctx context.Context) (context.Context, context.CancelCauseFunc) { return ctx, nil }, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := c.cancel(context.Background())
			stop := func() { cancel(errors.New("the user has left")) }
			if cancel == nil {
				var end context.CancelFunc
				ctx, end = context.WithTimeout(ctx, 1)
				stop = end
			}
			s := scripted.New().Add("support", scripted.Reply(scripted.Wait(func(ctx context.Context) error {
				stop()
				<-ctx.Done()
				return ctx.Err()
			})))
			b := newBench(t, newAgent(t, s, "support"), nil)
			_, err := b.say(ctx, session.ID("s1"))
			require.Error(t, err)
			if c.class == "canceled" {
				require.Equal(t, `invoke_workflow support !canceled
  invoke_agent support !canceled
    chat support !canceled
`, b.tree())
			} else {
				require.Contains(t, b.tree(), "invoke_workflow support !timeout\n")
			}
		})
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, c := range map[string]struct {
		answers []scripted.Answer
		opts    []runner.Option
		want    string
	}{
		"a model that fails": {[]scripted.Answer{scripted.Reply(scripted.Status(401, 0))}, nil, `invoke_workflow support !unauthorized
  invoke_agent support error !unauthorized
    chat support !unauthorized
`},
		"an error without a code": {[]scripted.Answer{scripted.Reply(scripted.Fail(broken))}, nil, `invoke_workflow support !agent_error
  invoke_agent support error !agent_error
    chat support !_OTHER
`},
		"an answer that is cut off": {[]scripted.Answer{scripted.Reply(scripted.Text("I "), scripted.Cut()), scripted.Reply(scripted.Text("I see."))}, nil, `invoke_workflow support
  invoke_agent support stop
    chat support !truncated
    chat support stop
`},
		"a tool that fails": {[]scripted.Answer{scripted.Reply(scripted.Call("fail", `{}`)), scripted.Reply(scripted.Text("It failed."))}, nil, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    execute_tool fail !tool_error
    chat support stop
`},
		"a tool that panics": {[]scripted.Answer{scripted.Reply(scripted.Call("panic", `{}`)), scripted.Reply(scripted.Text("It failed."))}, nil, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    execute_tool panic !tool_error
    chat support stop
`},
		"a tool that is not there": {[]scripted.Answer{scripted.Reply(scripted.Call("nothing", `{}`)), scripted.Reply(scripted.Text("It failed."))}, nil, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    chat support stop
`},
		"a transfer that is refused": {[]scripted.Answer{scripted.Reply(to("nobody")), scripted.Reply(scripted.Text("I see."))}, nil, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    chat support stop
  execute_tool transfer_to_agent !tool_error
`},
		"a model that panics": {[]scripted.Answer{scripted.Reply(scripted.Wait(func(context.Context) error { panic("oh") }))}, nil, `invoke_workflow support !internal
  invoke_agent support error !internal
    chat support !panic
`},
		"a limit": {[]scripted.Answer{scripted.Reply(scripted.Call("fail", `{}`))}, []runner.Option{runner.WithLimits(runner.Limits{ModelCalls: 1})}, `invoke_workflow support !limit
  invoke_agent support limit !limit
    chat support tool_calls
    execute_tool fail !tool_error
`},
		"a length limit": {[]scripted.Answer{scripted.Reply(scripted.Text("I"), scripted.Finish(llm.FinishLength))}, nil, `invoke_workflow support
  invoke_agent support length
    chat support length
`},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New().Add("support", c.answers...)
			with := llmagent.WithTools(newTool(t, "fail", func(tools.Context) (string, error) { return "", broken }),
				newTool(t, "panic", func(tools.Context) (string, error) { panic("oh") }))
			b := newBench(t, newAgent(t, s, "support", with, llmagent.WithSubAgents(newAgent(t, s, "billing"))), nil, c.opts...)
			_, err := b.say(context.Background(), session.ID("s1"))
			require.Equal(t, c.want, b.tree())
			require.Equal(t, err != nil, remarks(b.one("invoke_workflow support")) != "", "%v", err)
			for _, s := range b.spans.Ended() {
				require.Equal(t, attr(s, "error.type").AsString() != "", s.Status().Code == codes.Error)
				require.Empty(t, s.Status().Description, "what an error says may be content")
			}
		})
	}
}

// A failed attempt has its class in the metrics too.
func TestErrorsAreMeasured(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(scripted.Status(401, 0)))
	b := newBench(t, newAgent(t, s, "support"), nil)
	_, err := b.say(context.Background(), session.ID("s1"))
	require.Error(t, err)
	require.Equal(t, []string{"error.type=unauthorized,gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=support: 1 times"},
		b.measured()["gen_ai.client.operation.duration in s"])
}

func TestBusySession(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := scripted.New().Add("support", scripted.Reply(scripted.Wait(func(context.Context) error { close(begun); <-goOn; return nil }), scripted.Text("Hello.")))
	b := newBench(t, newAgent(t, s, "support"), nil)
	done := make(chan error)
	go func() {
		_, err := b.say(context.Background(), session.ID("s1"))
		done <- err
	}()
	<-begun
	_, err := b.say(context.Background(), session.ID("s1"))
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	close(goOn)
	require.NoError(t, <-done)
	require.Equal(t, `invoke_workflow support
  invoke_agent support stop
    chat support stop
invoke_workflow support !session_busy
`, b.tree())
}

// The consumer's own panic passes through, and leaves no span open.
func TestTheConsumerPanics(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(scripted.Text("Hello.")))
	b := newBench(t, newAgent(t, s, "support"), nil, runner.WithStreaming())
	require.PanicsWithValue(t, "oh", func() {
		until(b.runner.Run(context.Background(), session.ID("s1"), llm.UserText(question)), func(e *event.Event) bool {
			if e.Partial {
				panic("oh")
			}
			return false
		})
	})
	require.Equal(t, `invoke_workflow support broken off
  invoke_agent support broken off
    chat support broken off
`, b.tree())
}

func TestApproval(t *testing.T) {
	ctx, key := context.Background(), session.ID("s1")
	s := scripted.New().Add("support", scripted.Reply(scripted.CallID("c1", "refund", `{}`)), scripted.Reply(scripted.Text("Refunded.")))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(newTool(t, "refund", ok, tools.NeedsApproval(tools.ByUser())))), nil)
	must.Get(b.say(ctx, key))
	require.Equal(t, `invoke_workflow support
  invoke_agent support input_required
    chat support tool_calls
`, b.tree())
	paused := b.one("invoke_workflow support")
	require.Equal(t, "input_required", attr(paused, "arbor.turn.finish_reason").AsString())

	asked := must.Get(b.runner.Pending(ctx, key))
	must.Get(collect(b.runner.Resume(ctx, key, runner.Approve(asked[0].ToolCallID))))
	require.Equal(t, `invoke_workflow support
  invoke_agent support input_required
    chat support tool_calls
invoke_workflow support
  invoke_agent support stop
    execute_tool refund
    chat support stop
`, b.tree(), "a turn that goes on is a trace of its own")
	resumed := b.named("invoke_workflow support")[1]
	require.NotEqual(t, paused.SpanContext().TraceID(), resumed.SpanContext().TraceID())
	require.Equal(t, attr(paused, "arbor.turn.id"), attr(resumed, "arbor.turn.id"))
	require.Equal(t, attr(paused, "gen_ai.conversation.id"), attr(resumed, "gen_ai.conversation.id"))
}

// A run that was cut off goes on without another event of its start.
func TestResumeAfterABreak(t *testing.T) {
	ctx, key := context.Background(), session.ID("s1")
	plain := must.Get(agent.New("plain", "Has no model.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Text{Content: "Hello."}}, nil)
		}
	}))
	s := scripted.New().Add("support", scripted.Reply(scripted.Call("lookup", `{}`)), scripted.Reply(to("plain")))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(newTool(t, "lookup", ok)), llmagent.WithSubAgents(plain)), nil)
	until(b.runner.Run(ctx, key, llm.UserText(question)), func(e *event.Event) bool { return e.Type() == event.TypeToolResult })
	until(b.runner.Resume(ctx, key), func(e *event.Event) bool { return e.Type() == event.TypeHarnessStart })
	must.Get(collect(b.runner.Resume(ctx, key)))
	require.Equal(t, `invoke_workflow support broken off
  invoke_agent support broken off
    chat support tool_calls
    execute_tool lookup
invoke_workflow support broken off
  invoke_agent support transfer -> plain
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent plain broken off
invoke_workflow support
  invoke_agent plain stop
`, b.tree())
}

// A durable engine runs a turn step by step: each step is a trace, and each has
// the span of the run that it is a step of.
func TestStepByStep(t *testing.T) {
	ctx, key := context.Background(), session.ID("s1")
	s := scripted.New().Add("support", scripted.Reply(scripted.Call("lookup", `{}`)), scripted.Reply(scripted.Text("Done.")))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(newTool(t, "lookup", ok))), nil)
	_, state, err := b.runner.Begin(ctx, key, llm.UserText(question))
	for err == nil && !state.Over {
		_, state, err = b.runner.Advance(ctx, key, runner.Step{Attempt: 1})
	}
	require.NoError(t, err)
	require.Equal(t, `invoke_workflow support
  invoke_agent support
invoke_workflow support
  invoke_agent support
    chat support tool_calls
invoke_workflow support
  invoke_agent support
    execute_tool lookup
invoke_workflow support
  invoke_agent support stop
    chat support stop
`, b.tree())
	runs := make(map[string]bool)
	for _, s := range b.named("invoke_agent support") {
		runs[attr(s, "arbor.run.id").AsString()] = true
	}
	require.Len(t, runs, 1)
}

// An agent tool whose time is up: the inner run was closed, and says so.
func TestAnInnerRunRunsOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted.New().
			Add("support", scripted.Reply(scripted.Call("desk", `{"input":"look into it"}`)), scripted.Reply(scripted.Text("Nobody answers."))).
			Add("desk", scripted.Reply(scripted.Wait(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })))
		slow := must.Get(agenttool.New(newAgent(t, s, "desk"), agenttool.WithTimeout(time.Minute)))
		b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(slow)), nil)
		must.Get(b.say(context.Background(), session.ID("s1")))
		require.Equal(t, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    execute_tool desk !tool_error
      invoke_agent desk canceled
        chat desk !timeout
    chat support stop
`, b.tree())
		require.Equal(t, time.Minute, b.one("execute_tool desk").EndTime().Sub(b.one("execute_tool desk").StartTime()))
	})
}
