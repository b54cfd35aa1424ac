package telemetry_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/telemetry"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// transfers returns a function that runs one turn of a new session, in which
// support hands over to billing.
func transfers(t testing.TB, interceptor agent.Interceptor) func() {
	t.Helper()
	say := func(name string, items ...scripted.Item) llm.Model {
		return scripted.Always(name, scripted.Reply(items...))
	}
	billing := must.Get(llmagent.New("billing", "You handle refunds.", say("billing", scripted.Text("I see two charges and refund one."))))
	support := must.Get(llmagent.New("support", "You route.", say("support", to("billing")), llmagent.WithSubAgents(billing)))
	var r *runner.Runner
	n := 0
	return func() {
		if n%100 == 0 { // what earlier sessions left in memory is not this one's cost
			r = must.Get(runner.New(support, session.NewMemory(), runner.WithCache(1), runner.WithInterceptors(interceptor)))
		}
		n++
		for _, err := range r.Run(context.Background(), session.ID(fmt.Sprint("s", n)), llm.UserText(question)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// With providers that do nothing, and with providers that sample and drop, the six spans of a transfer cost few
// allocations beside the turn's own. The race detector has its own.
func TestAllocationsOfTracing(t *testing.T) {
	count := func(i agent.Interceptor) float64 { return race.Allocations(t, 200, transfers(t, i)) }
	noop := must.Get(telemetry.New(telemetry.WithTracerProvider(tracenoop.NewTracerProvider()), telemetry.WithMeterProvider(metricnoop.NewMeterProvider())))
	sdk := must.Get(telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider()),
		telemetry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))))
	without := count(agent.Passthrough{})
	// Both counts are averages without what is behind the point: one may be missing.
	require.LessOrEqual(t, count(noop)-without, 65.0+1)
	require.LessOrEqual(t, count(sdk)-without, 125.0+1)
}
