package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/telemetry"
)

// spans counts the spans that are open.
type spans struct{ open atomic.Int64 }

func (s *spans) OnStart(context.Context, sdktrace.ReadWriteSpan) { s.open.Add(1) }
func (s *spans) OnEnd(sdktrace.ReadOnlySpan)                     { s.open.Add(-1) }
func (s *spans) Shutdown(context.Context) error                  { return nil }
func (s *spans) ForceFlush(context.Context) error                { return nil }

// checkSpans: when nothing runs, nothing is measured.
func (w *world) checkSpans() {
	if n := w.spans.open.Load(); n != 0 {
		w.t.Fatalf("%d spans are open when the turn is over", n)
	}
}

var (
	someSampling = rapid.SampledFrom([]float64{0, 0.5, 1})
	someAround   = rapid.SampledFrom([]string{"", "", "", "pass", "no tracer", "trace", "trace", "meddle", "trace and meddle"})
	errMeddle    = errors.New("not now")
)

// around makes the interceptors of all runners of a case.
func (w *world) around() []agent.Interceptor {
	what := someAround.Draw(w.rt, "around")
	if what != "" {
		w.happened["around: "+what] = true
	}
	var all []agent.Interceptor
	switch what {
	case "pass":
		return []agent.Interceptor{agent.Passthrough{}, agent.Passthrough{}}
	case "no tracer":
		i := must.Get(telemetry.New())
		all = append(all, i)
	case "trace", "trace and meddle":
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.TraceIDRatioBased(someSampling.Draw(w.rt, "sampling"))), sdktrace.WithSpanProcessor(&w.spans))
		i := must.Get(telemetry.New(telemetry.WithTracerProvider(tracers), telemetry.WithContent()))
		all = append(all, i)
	}
	if strings.HasSuffix(what, "meddle") {
		all = append(all, refuser{})
	}
	return all
}

// refuser changes arguments and results, and sometimes will not have it at all.
type refuser struct{ agent.Passthrough }

func (refuser) ToolCall(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
	switch {
	case c.Name == "again" && strings.Contains(string(c.Input), "4"):
		return nil, errMeddle
	case c.Name == "fine" && strings.Contains(string(c.Input), "4"):
		return &event.ToolResult{Name: c.Name, Output: event.EncodeJSON("from the cache")}, nil
	}
	return next(ctx, c.Input)
}
