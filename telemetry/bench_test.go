package telemetry_test

import (
	"context"
	"fmt"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/telemetry"
)

// backends are the ways to run a turn that are compared: without an interceptor,
// with one that does nothing, and with this package's and providers that do
// nothing, or that sample and drop.
func backends(t testing.TB) map[string][]agent.Interceptor {
	t.Helper()
	traced := func(opts ...telemetry.Option) []agent.Interceptor {
		i := must.Get(telemetry.New(opts...))
		return []agent.Interceptor{i}
	}
	return map[string][]agent.Interceptor{
		"none":        nil,
		"passthrough": {agent.Passthrough{}},
		"noop":        traced(telemetry.WithTracerProvider(tracenoop.NewTracerProvider()), telemetry.WithMeterProvider(metricnoop.NewMeterProvider())),
		"sdk": traced(telemetry.WithTracerProvider(sdktrace.NewTracerProvider()),
			telemetry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))),
	}
}

// transfers returns a function that runs one turn of a new session, in which
// support hands over to billing.
func transfers(t testing.TB, interceptors []agent.Interceptor) func() {
	t.Helper()
	say := func(name string, items ...scripted.Item) llm.Model {
		return scripted.Always(name, scripted.Reply(items...))
	}
	billing := must.Get(llmagent.New("billing", "You handle refunds.", say("billing", scripted.Text("I see two charges and refund one."))))
	support, err := llmagent.New("support", "You route.", say("support", to("billing")), llmagent.WithSubAgents(billing))
	if err != nil {
		t.Fatal(err)
	}
	var r *runner.Runner
	n := 0
	return func() {
		if n%100 == 0 { // what earlier sessions left in memory is not this one's cost
			if r, err = runner.New(support, session.NewMemory(), runner.WithCache(1), runner.WithInterceptors(interceptors...)); err != nil {
				t.Fatal(err)
			}
		}
		n++
		for _, err := range r.Run(context.Background(), session.ID(fmt.Sprint("s", n)), llm.UserText(question)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func BenchmarkTransferTurn(b *testing.B) {
	with := backends(b)
	for _, name := range []string{"none", "passthrough", "noop", "sdk"} {
		b.Run(name, func(b *testing.B) {
			turn := transfers(b, with[name])
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
		})
	}
}
