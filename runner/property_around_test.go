package runner_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/observe/telemetry"
	"github.com/agentarbor/arbor/view"
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

// forgetful is a session beside which nothing is kept.
type forgetful struct{ agent.Session }

func (forgetful) Memo(_ any, create func() any) any { return create() }

// Turns makes a view read the log from its start.
func (forgetful) Turns() agent.Turns { return agent.Turns{} }

// instructed is the instruction of an agent of an inner scope, by which its requests are known. What the log alone says of the
// conversation around the scope is noted.
func instructed(ctx context.Context, inv *agent.Invocation) (string, error) {
	name := inv.Agent().Name() + " in " + inv.Scope()
	w, ok := ctx.Value(worldKey{}).(*world)
	if !ok || inv.Around() == nil {
		return name, nil
	}
	v := view.New(inv.Node(), view.Full(), inv.Scope())
	err := v.Begin(ctx, agent.NewInvocation(agent.InvocationParams{Node: inv.Node(), Tree: inv.Tree(), Session: inv.Session(), Scope: inv.Scope(),
		Around: fromLog(inv.Around())}))
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.surround[name] = v.Messages()
	}
	return name, nil // what cannot be read is the runner's to say
}

func fromLog(a *agent.Around) *agent.Around {
	if a == nil {
		return nil
	}
	all := *a
	all.Session, all.Around = forgetful{a.Session}, fromLog(a.Around)
	return &all
}

var instruction = regexp.MustCompile(`^\S+ in i[0-9]+`)

// checkSurround: a request of an inner scope begins with the conversation around it, if its agent is to see that.
func (w *world) checkSurround(m *plannedModel, req *llm.Request) {
	w.mu.Lock()
	want := w.surround[instruction.FindString(req.System)]
	w.mu.Unlock()
	if len(want) == 0 || candidates(req) != nil || compacted(req) {
		return
	}
	w.happen("a conversation around an inner scope")
	if len(req.Messages) < len(want) || !sameMessages(want, req.Messages[:len(want)]) {
		w.problem("%s was not shown this of the conversation around it:\n%v\nbut this:\n%v", m.name, want, req.Messages)
	}
}
