package telemetry_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/telemetry"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// wordsOnly withholds all events but words from what is further out.
type wordsOnly struct{ agent.Passthrough }

func (wordsOnly) Turn(ctx context.Context, _ agent.TurnInfo, next agent.TurnFunc) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range next(ctx) {
			if (err != nil || e.Text() != "") && !yield(e, err) {
				return
			}
		}
	}
}

// Without the events of starts and ends, runs are known from their calls: how
// they ended is not.
func TestEventsThatAreWithheld(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.Call("desk", `{"input":"look into it"}`)), scripted.Reply(to("billing"))).
		Add("desk", scripted.Reply(to("clerk"))).
		Add("clerk", scripted.Reply(scripted.Text("Found."))).
		Add("billing", scripted.Reply(scripted.Text("I see.")))
	desk := newAgent(t, s, "desk", llmagent.WithSubAgents(newAgent(t, s, "clerk")))
	support := newAgent(t, s, "support", llmagent.WithTools(agentTool(t, desk)), llmagent.WithSubAgents(newAgent(t, s, "billing")))
	b := newBench(t, support, nil, runner.WithInterceptors(wordsOnly{}))
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, `invoke_workflow support
  invoke_agent support
    chat support tool_calls
    execute_tool desk
      invoke_agent desk
        chat desk tool_calls
      execute_tool transfer_to_agent
      invoke_agent clerk
        chat clerk stop
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent billing
    chat billing stop
`, b.tree())
	require.Equal(t, b.one("invoke_agent support").EndTime(), b.one("invoke_agent billing").StartTime())
	require.Equal(t, b.one("invoke_agent desk").EndTime(), b.one("invoke_agent clerk").StartTime())
}

// silent makes an agent without a model that yields this, a minute later.
func silent(t *testing.T, name string, data event.Data, below ...agent.Agent) agent.Agent {
	t.Helper()
	return must.Get(agent.New(name, "Says one thing.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			time.Sleep(time.Minute)
			yield(&event.Event{Data: data}, nil)
		}
	}, agent.WithSubAgents(below...)))
}

// Inner runs without a call are placed by the events that say what caused them,
// and last as long as they did.
func TestInnerRunsWithoutCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := silent(t, "second", &event.Text{Content: "Noon."})
		first := silent(t, "first", &event.Transfer{From: "first", To: "second", Outcome: event.TransferCommitted}, second)
		alone := silent(t, "alone", &event.Text{Content: "One."})
		outer := must.Get(agent.New("outer", "Asks another.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				for e, err := range inv.Runtime().Run(ctx, alone, inv.RunID()+":harness_start", llm.Content{Text: "say"}) {
					if !yield(e, err) {
						return
					}
				}
			}
		}))
		s := scripted.New().Add("support", scripted.Reply(scripted.Call("first", `{"input":"what time is it?"}`)), scripted.Reply(to("outer")))
		b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(agentTool(t, first)), llmagent.WithSubAgents(outer)), nil)
		must.Get(b.say(context.Background(), session.ID("s1")))
		require.Zero(t, b.spans.open())
		require.Equal(t, `invoke_workflow support
  execute_tool transfer_to_agent
  invoke_agent outer stop
    invoke_agent alone stop
  invoke_agent support transfer -> outer
    chat support tool_calls
    chat support tool_calls
    execute_tool first
      invoke_agent first transfer -> second
      invoke_agent second stop
`, draw(t, b.spans.Ended(), byName))
		for _, name := range []string{"first", "second", "alone"} {
			s := b.one("invoke_agent " + name)
			require.Equal(t, time.Minute, s.EndTime().Sub(s.StartTime()), name)
		}
	})
}

// store notes in whose context the starts of runs are stored.
type store struct {
	session.Store
	mu     sync.Mutex
	starts map[string]trace.SpanContext
}

func (s *store) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	events := w.Events
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		switch e.Data.(type) {
		case *event.HarnessStart, *event.HarnessEnd:
			s.starts[e.Type()+" "+e.Agent] = trace.SpanContextFromContext(ctx)
		}
	}
	return s.Store.Write(ctx, key, w)
}

// What an instrumented store does for a run nests below that run, with the start of the next one that is
// stored in the same write, and the rest below the turn.
func TestTheStoresContext(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(to("billing"))).Add("billing", scripted.Reply(scripted.Text("I see.")))
	root := newAgent(t, s, "support", llmagent.WithSubAgents(newAgent(t, s, "billing")))
	b := newBench(t, root, nil)
	i := must.Get(telemetry.New(telemetry.WithTracerProvider(b.tracers)))
	noted := &store{Store: sessiontest.Memory(t), starts: make(map[string]trace.SpanContext)}
	b.store = noted
	b.use(root, i)
	must.Get(b.say(context.Background(), session.ID("s1")))
	turn := b.one("invoke_workflow support").SpanContext()
	support := b.one("invoke_agent support").SpanContext()
	require.Equal(t, map[string]trace.SpanContext{"harness_start support": turn, "harness_start billing": support,
		"harness_end support": support, "harness_end billing": b.one("invoke_agent billing").SpanContext()}, noted.starts)
}

// A turn begins with the end of the one before it, if that was cut off; this
// says nothing about the turn itself.
func TestBreakingOffAfterTheTurnBefore(t *testing.T) {
	ctx, key := context.Background(), session.ID("s1")
	s := scripted.New().Add("support", scripted.Reply(scripted.Text("I ", "see.")))
	b := newBench(t, newAgent(t, s, "support"), nil, runner.WithStreaming())
	until(b.runner.Run(ctx, key, llm.UserText(question)), func(e *event.Event) bool { return e.Partial })
	until(b.runner.Run(ctx, key, llm.UserText(question)), func(e *event.Event) bool { return e.Type() == event.TypeHarnessStart })
	require.Equal(t, `invoke_workflow support broken off
  invoke_agent support broken off
    chat support broken off
invoke_workflow support broken off
  invoke_agent support broken off
`, b.tree())
}

func recorded(t *testing.T) (agent.Interceptor, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	i := must.Get(telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))))
	return i, spans
}

// The code inside of the interceptor may fail in ways of its own.
func TestTurnsThatGoWrong(t *testing.T) {
	start := &event.Event{Seq: 1, TurnID: "t", RunID: "r", Agent: "a", Path: "a", Data: &event.HarnessStart{AgentID: "a"}}
	failed := &event.Event{Seq: 2, TurnID: "t", RunID: "r", Agent: "a", Path: "a", Data: &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonError}}
	for name, c := range map[string]struct {
		events []*event.Event
		panics bool
		want   string
	}{
		"a panic":              {[]*event.Event{start}, true, "invoke_workflow a !panic\n  invoke_agent a !panic\n"},
		"an end without error": {[]*event.Event{start, failed}, false, "invoke_workflow a\n  invoke_agent a error !_OTHER\n"},
	} {
		t.Run(name, func(t *testing.T) {
			i, spans := recorded(t)
			turn := i.Turn(context.Background(), agent.TurnInfo{Root: "a"}, func(context.Context) iter.Seq2[*event.Event, error] {
				return func(yield func(*event.Event, error) bool) {
					for _, e := range c.events {
						yield(e, nil)
					}
					if c.panics {
						panic("oh")
					}
				}
			})
			run := func() { _, _ = collect(turn) }
			if c.panics {
				require.PanicsWithValue(t, "oh", run)
			} else {
				run()
			}
			require.Equal(t, c.want, draw(t, spans.Ended(), byStart))
			require.Len(t, spans.Ended(), 2)
		})
	}
}

// A call that outlives its turn leaves no run open, and a model that just stops
// when it is cancelled was not cut off by its endpoint.
func TestCallsAfterTheTurn(t *testing.T) {
	i, spans := recorded(t)
	s := scripted.New().Always("a", scripted.Reply(scripted.Text("Hello.")))
	r := must.Get(runner.New(newAgent(t, s, "a"), sessiontest.Memory(t)))
	inv := agent.NewInvocation(agent.InvocationParams{Node: r.Tree().Root(), RunID: "r1"})
	var late context.Context
	turn := i.Turn(context.Background(), agent.TurnInfo{Root: "a"}, func(ctx context.Context) iter.Seq2[*event.Event, error] {
		late = ctx
		return func(func(*event.Event, error) bool) {}
	})
	must.Get(collect(turn))
	late, cancel := context.WithCancel(late)
	cancel()
	for range i.ModelCall(late, agent.ModelCallInfo{Invocation: inv, Model: s.Model("a"), Request: &llm.Request{}},
		func(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(func(llm.Chunk, error) bool) {}
		}) {
		t.Fatal("it yields nothing")
	}
	require.Len(t, spans.Ended(), len(spans.Started()))
	names := make([]string, 0, 2)
	for _, s := range spans.Ended() {
		names = append(names, s.Name()+remarks(s))
	}
	require.Equal(t, []string{"invoke_workflow a", "chat a !canceled"}, names)
}
