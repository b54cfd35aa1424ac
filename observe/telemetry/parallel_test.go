package telemetry_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// meet returns a function that waits until n calls of it are under way.
func meet(n int) func(context.Context) error {
	var group sync.WaitGroup
	group.Add(n)
	all := make(chan struct{})
	go func() { group.Wait(); close(all) }()
	return func(ctx context.Context) error {
		group.Done()
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Two agents as tools and a plain tool run at the same time, each with the spans
// below it that are its own.
func TestParallelTools(t *testing.T) {
	three := meet(3)
	s := scripted.New().
		Add("support", scripted.Reply(scripted.Call("left", `{"input":"go left"}`), scripted.Call("wait", `{}`), scripted.Call("right", `{"input":"go right"}`)),
			scripted.Reply(scripted.Text("All done."))).
		Add("left", scripted.Reply(scripted.Wait(three), scripted.Call("lookup", `{}`)), scripted.Reply(scripted.Text("Left."))).
		Add("right", scripted.Reply(scripted.Wait(three), scripted.Call("lookup", `{}`)), scripted.Reply(to("clerk"))).
		Add("clerk", scripted.Reply(scripted.Text("Right.")))
	lookup := newTool(t, "lookup", ok)
	left := newAgent(t, s, "left", llmagent.WithTools(lookup))
	right := newAgent(t, s, "right", llmagent.WithTools(lookup), llmagent.WithSubAgents(newAgent(t, s, "clerk")))
	wait := newTool(t, "wait", func(ctx tools.Context) (string, error) { return "met", three(ctx) })
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(agentTool(t, left), agentTool(t, right), wait)), nil)
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Zero(t, b.spans.open())
	require.Equal(t, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    chat support stop
    execute_tool left
      invoke_agent left stop
        chat left tool_calls
        chat left stop
        execute_tool lookup
    execute_tool right
      execute_tool transfer_to_agent
      invoke_agent clerk stop
        chat clerk stop
      invoke_agent right transfer -> clerk
        chat right tool_calls
        chat right tool_calls
        execute_tool lookup
    execute_tool wait
`, draw(t, b.spans.Ended(), byName))
}

// Whoever breaks off while inner agents run gets every span ended, too.
func TestBreakingOffAmongInnerAgents(t *testing.T) {
	two := meet(2)
	s := scripted.New().
		Add("support", scripted.Reply(scripted.Call("left", `{"input":"go left"}`), scripted.Call("right", `{"input":"go right"}`))).
		Add("left", scripted.Reply(scripted.Wait(two), scripted.Text("Le", "ft."))).
		Add("right", scripted.Reply(scripted.Wait(two), scripted.Text("Ri", "ght.")))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(agentTool(t, newAgent(t, s, "left")), agentTool(t, newAgent(t, s, "right")))), nil, runner.WithStreaming())
	until(b.runner.Run(context.Background(), session.ID("s1"), llm.UserText(question)), func(e *event.Event) bool { return e.Partial })
	require.Zero(t, b.spans.open())
	tree := draw(t, b.spans.Ended(), byName)
	require.Len(t, b.spans.Ended(), 9, tree)
	require.True(t, strings.HasPrefix(tree, "invoke_workflow support broken off\n  invoke_agent support broken off\n    chat support tool_calls\n    execute_tool left"), tree)
	require.Contains(t, tree, "      invoke_agent right broken off\n")
}

// Turns of many sessions share one interceptor; each has a trace of its own.
func TestConcurrentTurns(t *testing.T) {
	const sessions, turns = 8, 5
	s := scripted.New().
		Func("support", func(req *llm.Request) scripted.Answer { return scripted.Reply(scripted.Usage(10, 1, 0), to("billing")) }).
		Func("billing", func(req *llm.Request) scripted.Answer {
			if m := req.Messages[len(req.Messages)-1]; m.Role == llm.RoleTool {
				return scripted.Reply(scripted.Usage(10, 1, 0), scripted.Text("Done."))
			}
			return scripted.Reply(scripted.Usage(10, 1, 0), scripted.Call("desk", `{"input":"a"}`), scripted.Call("desk", `{"input":"b"}`))
		}).
		Always("desk", scripted.Reply(scripted.Text("Here.")))
	billing := newAgent(t, s, "billing", llmagent.WithTools(agentTool(t, newAgent(t, s, "desk"))))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithSubAgents(billing)), nil, runner.WithStreaming(), runner.ResumeRoot())
	var group sync.WaitGroup
	for n := range sessions {
		group.Go(func() {
			for range turns {
				must.Get(b.say(context.Background(), session.ID(fmt.Sprint("s", n))))
			}
		})
	}
	group.Wait()
	require.Zero(t, b.spans.open())
	traces := make(map[trace.TraceID][]sdktrace.ReadOnlySpan)
	for _, s := range b.spans.Ended() {
		traces[s.SpanContext().TraceID()] = append(traces[s.SpanContext().TraceID()], s)
	}
	require.Len(t, traces, sessions*turns)
	for _, spans := range traces {
		require.Equal(t, `invoke_workflow support
  execute_tool transfer_to_agent
  invoke_agent billing stop
    chat billing tool_calls
    chat billing stop
    execute_tool desk
      invoke_agent desk stop
        chat desk stop
    execute_tool desk
      invoke_agent desk stop
        chat desk stop
  invoke_agent support transfer -> billing
    chat support tool_calls
`, draw(t, spans, byName))
		conversation := attr(spans[0], "gen_ai.conversation.id")
		for _, s := range spans {
			require.Equal(t, conversation, attr(s, "gen_ai.conversation.id"), s.Name())
		}
		for _, s := range spans {
			if s.Name() == "invoke_agent billing" {
				require.Equal(t, int64(20), attr(s, "gen_ai.usage.input_tokens").AsInt64())
			}
		}
	}
	points := b.measured()["gen_ai.client.token.usage in {token}"]
	require.Contains(t, points, fmt.Sprintf("gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=support,gen_ai.token.type=input: %d times, sum %d", sessions*turns, sessions*turns*10))
}
