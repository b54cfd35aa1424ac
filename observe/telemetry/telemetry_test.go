package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/observe/telemetry"
)

func unsampled(b *bench) trace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()), sdktrace.WithSpanProcessor(b.spans))
}

func meters(b *bench) metric.MeterProvider {
	b.metrics = sdkmetric.NewManualReader()
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.metrics))
}

var errMeter = errors.New("no more instruments")

type brokenMeters struct{ noop.MeterProvider }

func (brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ noop.Meter }

func (brokenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errMeter
}

func TestNew(t *testing.T) {
	must.Get(telemetry.New())
	for _, o := range []telemetry.Option{telemetry.WithTracerProvider(nil), telemetry.WithMeterProvider(nil), telemetry.WithProvider(nil)} {
		_, err := telemetry.New(o)
		require.EqualError(t, err, "telemetry: a provider is nil")
	}
	_, err := telemetry.New(telemetry.WithMeterProvider(brokenMeters{}))
	require.ErrorIs(t, err, errMeter)
}

// Calls that belong to no turn, as in the test of an agent, are spans by
// themselves.
func TestCallsOutsideOfATurn(t *testing.T) {
	s := scripted.New().Always("support", scripted.Reply(scripted.Text("Hello.")))
	root := newAgent(t, s, "support")
	b := newBench(t, root, nil)
	i := must.Get(telemetry.New(telemetry.WithTracerProvider(b.tracers)))
	inv := agent.NewInvocation(agent.InvocationParams{Node: b.runner.Tree().Root(), RunID: "r1"})
	ctx := context.Background()
	ask := i.ModelCall(ctx, agent.ModelCallInfo{Invocation: inv, Model: s.Model("support"), Request: &llm.Request{}},
		func(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
			return s.Model("support").Generate(ctx, req)
		})
	for range 2 { // a sequence can be run again
		must.All(ask)
	}
	_, err := i.ToolCall(ctx, agent.ToolCallInfo{Invocation: inv, ID: "c1", Name: "refund", Input: json.RawMessage(`{}`)},
		func(context.Context, json.RawMessage) (*event.ToolResult, error) { return nil, context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
	require.Panics(t, func() {
		_, _ = i.ToolCall(ctx, agent.ToolCallInfo{Invocation: inv, ID: "c2", Name: "panic", Input: json.RawMessage(`{}`)},
			func(context.Context, json.RawMessage) (*event.ToolResult, error) { panic("oh") })
	})
	require.Equal(t, `chat support stop
chat support stop
execute_tool refund !canceled
execute_tool panic !panic
`, b.tree())
}
