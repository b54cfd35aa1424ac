package telemetry_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/telemetry"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// transport does what instrumentation of HTTP clients does: it sends the trace
// of the request's context along.
type transport struct {
	mu   sync.Mutex
	sent []string
}

func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	tr.mu.Lock()
	tr.sent = append(tr.sent, r.Header.Get("traceparent"))
	tr.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

func traceparent(s sdktrace.ReadOnlySpan) string {
	return fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.SpanContext().SpanID())
}

func TestHTTPRequestsCarryTheSpan(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.Usage(11, 3, 0), to("billing"))).
		Add("billing", scripted.Reply(scripted.Usage(12, 4, 2), scripted.Text("I see ", "two charges.")))
	srv := must.Get(endpoint.Start(s.Models()))
	defer srv.Close()
	tr := &transport{}
	model := func(name string) llm.Model {
		return must.Get(openai.New(name, openai.WithBaseURL(srv.URL()), openai.WithAPIKey("sk-a-secret-key"), openai.WithHTTPClient(&http.Client{Transport: tr})))
	}
	billing := must.Get(llmagent.New("billing", "You handle refunds.", model("billing")))
	support := must.Get(llmagent.New("support", "You route.", model("support"), llmagent.WithSubAgents(billing)))
	b := newBench(t, support, []telemetry.Option{telemetry.WithContent()}, runner.WithStreaming())
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, `invoke_workflow support
  invoke_agent support transfer -> billing
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent billing stop
    chat billing stop
`, b.tree())
	require.Equal(t, []string{traceparent(b.one("chat support")), traceparent(b.one("chat billing"))}, tr.sent)
	require.Equal(t, int64(2), attr(b.one("chat billing"), "gen_ai.usage.cache_read.input_tokens").AsInt64())
	require.NotContains(t, b.everything(), "sk-a-secret-key", "also with content")
}

// An agent without a model, such as one that calls a remote agent, finds its run
// in the context, and its own spans nest below that.
func TestAgentsOfTheirOwnKind(t *testing.T) {
	var tracer trace.Tracer
	s := scripted.New().
		Add("support", scripted.Reply(to("remote"))).
		Add("helper", scripted.Reply(scripted.Text("Helped.")), scripted.Reply(scripted.Text("Helped again."))).
		Add("remote", scripted.Reply(scripted.Text("Thought.")))
	helper := newAgent(t, s, "helper")
	model := s.Model("remote")
	var seen []trace.SpanContext
	remote := must.Get(agent.New("remote", "Calls far away.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			seen = append(seen, trace.SpanContextFromContext(ctx))
			mine := trace.SpanFromContext(ctx)
			mine.SetAttributes()
			mine.AddEvent("asked")
			mine.AddLink(trace.Link{})
			mine.RecordError(context.Canceled)
			mine.SetStatus(codes.Unset, "")
			mine.SetName("invoke_agent remote")
			require.True(t, mine.IsRecording())
			mine.End()
			ctx, span := tracer.Start(ctx, "POST")
			defer span.End()
			must.All(inv.Runtime().Ask(ctx, inv, model, &llm.Request{Messages: []llm.Message{llm.UserText("Think.")}}))
			for e, err := range inv.Runtime().Run(ctx, helper, inv.RunID()+":harness_start", llm.Content{Text: "help"}) {
				require.NoError(t, err)
				if !yield(e, nil) {
					return
				}
			}
			yield(&event.Event{Data: &event.Text{Content: "Hello from far away."}}, nil)
		}
	}))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithSubAgents(remote)), nil)
	tracer = b.tracers.Tracer("mine")
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, `invoke_workflow support
  invoke_agent support transfer -> remote
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent remote stop
    POST
      chat remote stop
      invoke_agent helper stop
        chat helper stop
`, b.tree())
	require.Equal(t, []trace.SpanContext{b.one("invoke_agent remote").SpanContext()}, seen)
	require.Len(t, b.one("invoke_agent remote").Events(), 2)
}

// An inner run without any call is known from its events alone.
func TestAnInnerAgentWithoutCalls(t *testing.T) {
	for name, say := range map[string]bool{"that speaks": true, "that says nothing": false} {
		t.Run(name, func(t *testing.T) {
			clock := must.Get(agent.New("clock", "Tells the time.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
				return func(yield func(*event.Event, error) bool) {
					if say {
						yield(&event.Event{Data: &event.Text{Content: "Noon."}}, nil)
					}
				}
			}))
			s := scripted.New().Add("support", scripted.Reply(scripted.Call("clock", `{"input":"what time is it?"}`)), scripted.Reply(scripted.Text("Noon.")))
			b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(agentTool(t, clock))), nil)
			must.Get(b.say(context.Background(), session.ID("s1")))
			failed := map[bool]string{false: " !tool_error"}[say]
			require.Equal(t, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    execute_tool clock`+failed+`
      invoke_agent clock stop
    chat support stop
`, b.tree())
		})
	}
}

// An inner agent's own code finds the tool call's span, and the calls that it
// makes within a span of its own stay below that.
func TestAnInnerAgentWithSpansOfItsOwn(t *testing.T) {
	var tracer trace.Tracer
	s := scripted.New().
		Add("support", scripted.Reply(scripted.Call("thinker", `{"input":"think"}`)), scripted.Reply(scripted.Text("Done."))).
		Always("model", scripted.Reply(scripted.Text("Thought.")))
	thinker := must.Get(agent.New("thinker", "Thinks twice.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			ask := func(ctx context.Context) {
				must.All(inv.Runtime().Ask(ctx, inv, s.Model("model"), &llm.Request{Messages: []llm.Message{llm.UserText("Think.")}}))
			}
			ask(ctx)
			ctx, span := tracer.Start(ctx, "second thoughts")
			defer span.End()
			ask(ctx)
			yield(&event.Event{Data: &event.Text{Content: "I thought."}}, nil)
		}
	}))
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(agentTool(t, thinker))), nil)
	tracer = b.tracers.Tracer("mine")
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, `invoke_workflow support
  invoke_agent support stop
    chat support tool_calls
    execute_tool thinker
      invoke_agent thinker stop
        chat model stop
      second thoughts
        chat model stop
    chat support stop
`, b.tree())
}

// Tools find their own span in the context.
func TestToolsFindTheirSpan(t *testing.T) {
	var seen trace.SpanContext
	s := scripted.New().Add("support", scripted.Reply(scripted.Call("fetch", `{}`)), scripted.Reply(scripted.Text("Done.")))
	fetch := newTool(t, "fetch", func(ctx tools.Context) (string, error) {
		seen = trace.SpanContextFromContext(ctx)
		return "done", nil
	})
	b := newBench(t, newAgent(t, s, "support", llmagent.WithTools(fetch)), nil)
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, b.one("execute_tool fetch").SpanContext(), seen)
}

// The turn's span is below the span of the caller's context.
func TestTheCallersSpan(t *testing.T) {
	s := scripted.New().Always("support", scripted.Reply(scripted.Text("Hello.")))
	b := newBench(t, newAgent(t, s, "support"), nil)
	ctx, span := b.tracers.Tracer("mine").Start(context.Background(), "POST /chat")
	must.Get(b.say(ctx, session.ID("s1")))
	span.End()
	require.Equal(t, `POST /chat
  invoke_workflow support
    invoke_agent support stop
      chat support stop
`, b.tree())
}

// Two interceptors of this package, each with its own backend, do not take each
// other's runs for their own: both record all of them.
func TestTwoBackends(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(scripted.Call("desk", `{"input":"look into it"}`)), scripted.Reply(to("billing"))).
		Add("desk", scripted.Reply(scripted.Text("Here."))).
		Add("billing", scripted.Reply(scripted.Text("I see.")))
	second := tracetest.NewSpanRecorder()
	i := must.Get(telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(second)))))
	root := newAgent(t, s, "support", llmagent.WithSubAgents(newAgent(t, s, "billing")), llmagent.WithTools(agentTool(t, newAgent(t, s, "desk"))))
	b := newBench(t, root, nil, runner.WithInterceptors(i))
	must.Get(b.say(context.Background(), session.ID("s1")))
	count := func(spans []sdktrace.ReadOnlySpan) map[string]int {
		names := make(map[string]int)
		for _, s := range spans {
			names[s.Name()]++
		}
		return names
	}
	require.Equal(t, count(b.spans.Ended()), count(second.Ended()))
	require.Len(t, second.Ended(), len(second.Started()))
	require.Len(t, second.Ended(), 10)
}

func TestProviders(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(to("billing"))).Add("billing", scripted.Reply(scripted.Text("Hello.")))
	root := newAgent(t, s, "support", llmagent.WithSubAgents(newAgent(t, s, "billing")))
	b := newBench(t, root, []telemetry.Option{telemetry.WithProvider(func(m llm.Model) string {
		return map[string]string{"support": "mistral_ai", "billing": "deepseek"}[m.Name()]
	})})
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, "mistral_ai", attr(b.one("chat support"), "gen_ai.provider.name").AsString())
	require.Equal(t, "mistral_ai", attr(b.one("invoke_agent support"), "gen_ai.provider.name").AsString())
	require.Equal(t, "deepseek", attr(b.one("chat billing"), "gen_ai.provider.name").AsString())
	b = newBench(t, newAgent(t, scripted.New().Always("a", scripted.Reply(scripted.Text("Hello."))), "a"), []telemetry.Option{telemetry.WithProviderName("cohere")})
	must.Get(b.say(context.Background(), session.ID("s1")))
	require.Equal(t, "cohere", attr(b.one("chat a"), "gen_ai.provider.name").AsString())
}
