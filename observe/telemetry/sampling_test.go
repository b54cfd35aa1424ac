package telemetry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/telemetry"
	"github.com/agentarbor/arbor/session"
)

// desk is a tree with everything below which a span can be. Support asks an agent tool,
// then hands over to a graph. One of the graph's nodes asks an agent tool, one is a graph
// and one hands over.
func desk(t testing.TB) agent.Agent {
	t.Helper()
	s := scripted.New().
		Always("facts", scripted.Reply(scripted.Text("Facts."))).
		Add("support", scripted.Reply(scripted.Call("facts", `{"input":"What is known?"}`)), scripted.Reply(to("article"))).
		Add("writer", scripted.Reply(scripted.Call("facts", `{"input":"And what else?"}`)), scripted.Reply(scripted.Text("Written."))).
		Add("judge", scripted.Reply(scripted.Text("Good."))).
		Add("clerk", scripted.Reply(to("printer"))).
		Add("printer", scripted.Reply(scripted.Text("Printed.")))
	facts := agentTool(t, newAgent(t, s, "facts"))
	check := must.Get(agentgraph.NewBuilder("check").Node("judge", newAgent(t, s, "judge")).Build())
	graph := must.Get(agentgraph.NewBuilder("article").
		Node("writer", newAgent(t, s, "writer", llmagent.WithTools(facts))).
		Node("check", check).
		Node("clerk", newAgent(t, s, "clerk", llmagent.WithSubAgents(newAgent(t, s, "printer")))).
		Edge("writer", "check").Edge("check", "clerk").Build())
	return newAgent(t, s, "support", llmagent.WithTools(facts), llmagent.WithSubAgents(graph))
}

const deskSpans = `invoke_workflow support
  invoke_agent support transfer -> article
    chat support tool_calls
    execute_tool facts
      invoke_agent facts stop
        chat facts stop
    chat support tool_calls
  execute_tool transfer_to_agent
  invoke_agent article stop
    invoke_agent writer stop
      chat writer tool_calls
      execute_tool facts
        invoke_agent facts stop
          chat facts stop
      chat writer stop
    invoke_agent check stop
      invoke_agent judge stop
        chat judge stop
    invoke_agent clerk transfer -> printer
      chat clerk tool_calls
    execute_tool transfer_to_agent
    invoke_agent printer stop
      chat printer stop
`

// Without a provider every span is one that records nothing, and the turn goes on as if
// nobody looked.
func TestNoProvider(t *testing.T) {
	b := newBench(t, desk(t), nil)
	i := must.Get(telemetry.New())
	b.use(desk(t), i)
	must.Get(b.say(context.Background(), session.ID("s1")))
}

// A trace is there as a whole or not at all, whatever part of the turns is sampled.
func TestSampledTurns(t *testing.T) {
	for _, ratio := range []float64{0, 0.5, 1} {
		t.Run(fmt.Sprint(ratio), func(t *testing.T) {
			const turns = 24
			traces := make(map[trace.TraceID][]sdktrace.ReadOnlySpan)
			b := newBench(t, desk(t), nil)
			b.tracers = sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))), sdktrace.WithSpanProcessor(b.spans),
				sdktrace.WithIDGenerator(&counted{}))
			i := must.Get(telemetry.New(telemetry.WithTracerProvider(b.tracers)))
			for n := range turns {
				b.use(desk(t), i)
				must.Get(b.say(context.Background(), session.ID(fmt.Sprint("s", n))))
			}
			require.Zero(t, b.spans.open())
			for _, s := range b.spans.Ended() {
				traces[s.SpanContext().TraceID()] = append(traces[s.SpanContext().TraceID()], s)
			}
			require.Len(t, traces, int(turns*ratio))
			for _, spans := range traces {
				require.Equal(t, deskSpans, draw(t, spans, byStart))
			}
		})
	}
}

// counted gives ids: at a ratio of a half, every second one is sampled.
type counted struct{ traces, spans byte }

func (c *counted) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c.traces++
	return trace.TraceID{0: 1, 8: c.traces << 7, 15: c.traces}, c.NewSpanID(ctx, trace.TraceID{})
}

func (c *counted) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	c.spans++
	return trace.SpanID{c.spans, 1}
}

// without is a sampler that drops the spans of one name, and none below them.
type without string

func (s without) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Name == string(s) {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
}

func (s without) Description() string { return "without " + string(s) }

// A sampler that drops single spans, the turn's among them, does not change how the
// others nest in each other and in those that are missing.
func TestSamplersThatDropSingleSpans(t *testing.T) {
	whole := newBench(t, desk(t), nil)
	must.Get(whole.say(context.Background(), session.ID("s1")))
	require.Equal(t, deskSpans, whole.tree())
	names := make(map[string]bool)
	for _, s := range whole.spans.Ended() {
		names[s.Name()] = true
	}
	for name := range names {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, desk(t), nil)
			b.tracers = sdktrace.NewTracerProvider(sdktrace.WithSampler(without(name)), sdktrace.WithSpanProcessor(b.spans))
			i := must.Get(telemetry.New(telemetry.WithTracerProvider(b.tracers)))
			b.use(desk(t), i)
			must.Get(b.say(context.Background(), session.ID("s1")))
			require.Zero(t, b.spans.open())
			require.Equal(t, families(whole.spans.Ended(), name), families(b.spans.Ended(), name))
		})
	}
}

// families lists the spans that have children, each with them, without those of a name:
// of such a parent only its children are listed.
func families(spans []sdktrace.ReadOnlySpan, dropped string) (all []string) {
	names := make(map[trace.SpanID]string)
	children := make(map[trace.SpanID][]string)
	for _, s := range spans {
		if s.Name() != dropped {
			names[s.SpanContext().SpanID()] = s.Name()
			children[s.Parent().SpanID()] = append(children[s.Parent().SpanID()], s.Name())
		}
	}
	for parent, of := range children {
		slices.Sort(of)
		all = append(all, names[parent]+": "+strings.Join(of, ", "))
	}
	slices.Sort(all)
	return all
}
