package telemetry_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/telemetry"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// bench is a runner whose turns are traced into memory.
type bench struct {
	t       testing.TB
	runner  *runner.Runner
	store   session.Store
	spans   *watch
	tracers *sdktrace.TracerProvider
	metrics *sdkmetric.ManualReader
}

// watch keeps ended spans and counts those that are still open.
type watch struct {
	*tracetest.SpanRecorder
}

func (w *watch) open() int { return len(w.Started()) - len(w.Ended()) }

func newBench(t testing.TB, root agent.Agent, opts []telemetry.Option, more ...runner.Option) *bench {
	t.Helper()
	b := &bench{t: t, store: sessiontest.Memory(t), spans: &watch{tracetest.NewSpanRecorder()}, metrics: sdkmetric.NewManualReader()}
	b.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.metrics))
	i := must.Get(telemetry.New(append([]telemetry.Option{telemetry.WithTracerProvider(b.tracers), telemetry.WithMeterProvider(meters)}, opts...)...))
	b.use(root, i, more...)
	return b
}

func (b *bench) use(root agent.Agent, i agent.Interceptor, more ...runner.Option) {
	r := must.Get(runner.New(root, b.store, append([]runner.Option{runner.WithInterceptors(i)}, more...)...))
	b.runner = r
}

const question = "I was charged twice"

func (b *bench) say(ctx context.Context, key session.Key) ([]*event.Event, error) {
	return collect(b.runner.Run(ctx, key, llm.UserText(question)))
}

func collect(turn func(func(*event.Event, error) bool)) (events []*event.Event, err error) {
	for e, failed := range turn {
		if failed != nil {
			err = failed
			continue
		}
		events = append(events, e)
	}
	return events, err
}

// tree draws the spans that have ended: siblings in the order in which they
// began, each with its error and what else is interesting.
func (b *bench) tree() string {
	b.t.Helper()
	require.Zero(b.t, b.spans.open(), "every span ends")
	return draw(b.t, b.spans.Ended(), byStart)
}

func draw(t testing.TB, spans []sdktrace.ReadOnlySpan, order func(a, b sdktrace.ReadOnlySpan) int) string {
	t.Helper()
	children := make(map[trace.SpanID][]sdktrace.ReadOnlySpan)
	byID := make(map[trace.SpanID]sdktrace.ReadOnlySpan)
	for _, s := range spans {
		byID[s.SpanContext().SpanID()] = s
	}
	for _, s := range spans {
		parent := s.Parent().SpanID()
		if s.Parent().IsValid() {
			p := byID[parent]
			require.NotNil(t, p, "the parent of %s is no span of ours", s.Name())
			require.False(t, s.StartTime().Before(p.StartTime()), "%s begins before its parent %s", s.Name(), p.Name())
			require.False(t, s.EndTime().After(p.EndTime()), "%s ends after its parent %s", s.Name(), p.Name())
			require.Equal(t, p.SpanContext().TraceID(), s.SpanContext().TraceID())
		}
		children[parent] = append(children[parent], s)
	}
	var out strings.Builder
	var visit func(id trace.SpanID, depth int)
	visit = func(id trace.SpanID, depth int) {
		slices.SortStableFunc(children[id], order)
		for _, s := range children[id] {
			fmt.Fprintf(&out, "%s%s%s\n", strings.Repeat("  ", depth), s.Name(), remarks(s))
			visit(s.SpanContext().SpanID(), depth+1)
		}
	}
	visit(trace.SpanID{}, 0)
	return out.String()
}

func byStart(a, b sdktrace.ReadOnlySpan) int {
	return cmp.Or(a.StartTime().Compare(b.StartTime()), cmp.Compare(a.Name(), b.Name()))
}

// byName is for what runs at the same time.
func byName(a, b sdktrace.ReadOnlySpan) int {
	return cmp.Or(cmp.Compare(a.Name(), b.Name()), a.StartTime().Compare(b.StartTime()))
}

func remarks(s sdktrace.ReadOnlySpan) string {
	var text string
	for _, a := range s.Attributes() {
		switch a.Key {
		case "gen_ai.response.finish_reasons":
			text += " " + strings.Join(a.Value.AsStringSlice(), ",")
		case "arbor.transfer.target":
			text += " -> " + a.Value.AsString()
		case "arbor.broken_off":
			text += " broken off"
		}
	}
	if class := attr(s, "error.type").AsString(); class != "" {
		text += " !" + class
	}
	return text
}

func attr(s sdktrace.ReadOnlySpan, key string) attribute.Value {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// named returns the ended spans of a name, in the order of their beginning.
func (b *bench) named(name string) (found []sdktrace.ReadOnlySpan) {
	b.t.Helper()
	for _, s := range b.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, byStart)
	return found
}

func (b *bench) one(name string) sdktrace.ReadOnlySpan {
	b.t.Helper()
	found := b.named(name)
	require.Len(b.t, found, 1, name)
	return found[0]
}

// attributes returns a span's attributes as text; ids are said to be there.
func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes() {
		value := a.Value.String()
		if strings.HasPrefix(string(a.Key), "arbor.") && strings.HasSuffix(string(a.Key), ".id") || a.Key == "gen_ai.tool.call.id" {
			value = "an id"
		}
		all[string(a.Key)] = value
	}
	return all
}

// measured returns the histograms by name, their points in a stable order.
func (b *bench) measured() map[string][]string {
	b.t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(b.t, b.metrics.Collect(context.Background(), &data))
	all := make(map[string][]string)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			var points []string
			switch h := m.Data.(type) {
			case metricdata.Histogram[int64]:
				for _, p := range h.DataPoints {
					points = append(points, fmt.Sprintf("%s: %d times, sum %d", p.Attributes.Encoded(attribute.DefaultEncoder()), p.Count, p.Sum))
				}
			case metricdata.Histogram[float64]:
				for _, p := range h.DataPoints {
					points = append(points, fmt.Sprintf("%s: %d times", p.Attributes.Encoded(attribute.DefaultEncoder()), p.Count))
				}
			}
			slices.Sort(points)
			all[m.Name+" in "+m.Unit] = points
		}
	}
	return all
}

// everything is all text that a backend would get.
func (b *bench) everything() string {
	b.t.Helper()
	data := must.Get(json.Marshal(tracetest.SpanStubsFromReadOnlySpans(b.spans.Ended())))
	text := string(data)
	for _, s := range b.spans.Ended() { // attribute values print better than they marshal
		text += fmt.Sprint(s.Name(), s.Status().Description, s.Attributes(), s.Events(), s.Links())
	}
	return text + fmt.Sprint(b.measured())
}

func newAgent(t testing.TB, s *scripted.Script, name string, opts ...llmagent.Option) *llmagent.Agent {
	t.Helper()
	return must.Get(llmagent.New(name, "You are "+name+".", s.Model(name), append([]llmagent.Option{llmagent.WithDescription("Does " + name)}, opts...)...))
}

func newTool(t testing.TB, name string, f func(tools.Context) (string, error), opts ...tools.Option) tools.Tool {
	t.Helper()
	return must.Get(tools.Func(name, "Does "+name, func(ctx tools.Context, _ struct {
		Secret string `json:"secret,omitempty"`
	}) (string, error) {
		return f(ctx)
	}, opts...))
}

func agentTool(t testing.TB, a agent.Agent) tools.Tool {
	t.Helper()
	return must.Get(agenttool.New(a))
}

func to(name string) scripted.Item {
	return scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q}`, name))
}

func ok(tools.Context) (string, error) { return "done", nil }
