package telemetry

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// run is one run of an agent and its span invoke_agent.
//
// A run of the conversation begins with the event that says so: the consumer
// gets it before the agent is asked. The events of inner scopes come later than
// the calls they report, so an inner run begins with its first call of a model or
// a tool; or, if it makes none, with an event of it, back-dated.
type run struct {
	id, scope   string
	agent, path string
	parent      trace.Span
	under       *call     // the tool call around an inner run
	heard       time.Time // when its first event was seen, if that came first
	placed      bool      // parent and under are what its first event says

	// base is the span that the run's code found in its context at the first call;
	// where it finds another one later, it has started that itself.
	base trace.SpanContext

	span      trace.Span // nil until it begins
	described bool
	stopped   time.Time // when it was over, if that is known before the event
	ended     bool

	failure string // the code of its error event
	usage   llm.Usage
	used    bool // an endpoint has reported its usage
}

func (t *turn) find(id string) *run {
	return t.byID[id]
}

// started notes that a run has started.
func (t *turn) started(e *event.Event) {
	if e.Scope == "" {
		t.finish = ""
	}
	if t.find(e.RunID) != nil {
		return
	}
	r := t.add(&run{id: e.RunID, scope: e.Scope, agent: e.Agent, path: e.Path}, e.TurnID)
	if e.Scope == "" {
		t.beginRun(t.ctx, r)
		return
	}
	r.heard = time.Now()
	r.parent, r.under, r.placed = t.cause(r, e.ParentID)
}

func (t *turn) add(r *run, turnID string) *run {
	t.runs = append(t.runs, r)
	if t.byID == nil {
		t.byID, t.latest = make(map[string]*run), make(map[string]*run)
	}
	t.byID[r.id] = r
	if t.id == "" {
		t.id = turnID
	}
	r.parent = t.span
	return r
}

// cause finds the parent of an inner run: its tool call, or the parent of the
// run before it in its scope, or the run that started it.
func (t *turn) cause(r *run, parentID string) (parent trace.Span, under *call, certain bool) {
	for _, c := range t.calls {
		if c.id == parentID {
			return c.span, c, false
		}
	}
	id, end := strings.CutSuffix(parentID, ":harness_end")
	if before := t.find(id); end && before != nil {
		return before.parent, before.under, true
	}
	id, start := strings.CutSuffix(parentID, ":harness_start")
	if around := t.find(id); start && around != nil {
		if around.span == nil { // a workflow inside another makes no calls of its own
			t.beginRun(t.ctx, around)
		}
		return around.span, around.under, true
	}
	return t.span, nil, false
}

// ensureSpan begins the span of a run that has made no call: that of an agent
// without a model, or of one that continues after a crash, whose start is in an
// earlier part of the turn.
func (t *turn) ensureSpan(e *event.Event) {
	r := t.find(e.RunID)
	if r == nil && e.Scope == "" {
		r = t.add(&run{id: e.RunID, agent: e.Agent, path: e.Path}, e.TurnID)
	}
	if r != nil && r.span == nil {
		t.beginRun(t.ctx, r)
	}
}

// of returns the run that makes a call, its span begun; nil when the turn is
// over.
func (t *turn) of(ctx context.Context, inv *agent.Invocation) *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	r := t.find(inv.RunID())
	if r == nil {
		r = t.add(&run{id: inv.RunID(), scope: inv.Scope(), agent: inv.Agent().Name(), path: inv.Node().Path}, inv.TurnID())
	}
	if r.span == nil {
		if r.scope == "" {
			t.beginRun(t.ctx, r)
		} else {
			found, ours := t.agents.in(ctx)
			r.base = found.SpanContext()
			if !r.placed || !ours || t.agents.run.Load() == nil { // or a span of the code around it
				r.parent, r.under = found, t.placeOf(ctx).call
			}
			t.beginRun(ctx, r)
		}
	}
	return r
}

func (t *turn) beginRun(ctx context.Context, r *run) {
	start := r.heard
	if start.IsZero() {
		start = time.Now()
	}
	if before := t.latest[r.scope]; before != nil && before != r && before.stopped.IsZero() {
		before.stopped = start // a scope has one run at a time
	}
	t.latest[r.scope] = r
	if r.scope != "" {
		ctx = trace.ContextWithSpan(ctx, r.parent)
	}
	_, r.span = t.tracer.Start(ctx, opAgent+" "+r.agent, trace.WithTimestamp(start), trace.WithAttributes(attribute.String(keyOperation, opAgent), attribute.String(keyAgentName, r.agent),
		attribute.String(keyAgentID, r.path), attribute.String(keyConversation, t.conversation), attribute.String(keyRunID, r.id)))
	if r.scope == "" {
		t.agents.run.Store(r)
	}
}

// describe adds what only a call of the run's model tells.
func (t *turn) describe(r *run, c agent.ModelCallInfo, provider string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.described || r.ended || !r.span.IsRecording() {
		return
	}
	r.described = true
	r.span.SetAttributes(attribute.String(keyProvider, provider), attribute.String(keyRequestModel, c.Model.Name()))
	if d := c.Invocation.Agent().Description(); d != "" {
		r.span.SetAttributes(attribute.String(keyAgentDescription, d))
	}
}

// spend adds the usage of one attempt at an answer to the run's.
func (t *turn) spend(r *run, u llm.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.used = true
	r.usage = r.usage.Add(u)
}

// over ends a run's span as its event says.
func (t *turn) over(e *event.Event, d *event.HarnessEnd) {
	if e.Scope == "" {
		t.finish = d.FinishReason
		t.agents.run.Store(nil)
	}
	r := t.find(e.RunID)
	if r == nil || r.ended {
		return // of an earlier turn, which this one has closed
	}
	if r.span == nil {
		t.beginRun(t.ctx, r)
	}
	if r.span.IsRecording() {
		r.span.SetAttributes(attribute.StringSlice(keyFinishReasons, []string{string(d.FinishReason)}))
		if d.Target != "" {
			r.span.SetAttributes(attribute.String(keyTarget, d.Target))
		}
	}
	if d.FinishReason == event.FinishReasonError || d.FinishReason == event.FinishReasonLimit {
		if r.failure == "" {
			r.failure = otherError
		}
		t.fail(r.span, r.failure, nil)
	}
	t.measureNode(r)
	t.endRun(r, false)
}

// measureNode records how long a node of a graph took, if the run is one's and began in
// this part of the turn.
func (t *turn) measureNode(r *run) {
	graph := t.find(event.ParentRun(r.scope))
	if graph == nil || r.heard.IsZero() || !t.node.Enabled(t.ctx) {
		return
	}
	attributes := []attribute.KeyValue{attribute.String(keyGraph, graph.agent), attribute.String(keyAgentName, r.agent)}
	if r.failure != "" {
		attributes = append(attributes, attribute.String(keyErrorType, r.failure))
	}
	t.node.Record(t.ctx, time.Since(r.heard).Seconds(), metric.WithAttributes(attributes...))
}

func (t *turn) endRun(r *run, brokenOff bool) {
	r.ended = true
	if r.span.IsRecording() {
		if r.used {
			r.span.SetAttributes(usageAttributes(r.usage)...)
		}
		if brokenOff {
			r.span.SetAttributes(attribute.Bool(keyBrokenOff, true))
		}
	}
	if r.stopped.IsZero() {
		r.span.End()
	} else {
		r.span.End(trace.WithTimestamp(r.stopped))
	}
}

func usageAttributes(u llm.Usage) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attribute.Int(keyInputTokens, u.InputTokens), attribute.Int(keyOutputTokens, u.OutputTokens)}
	if u.CachedTokens > 0 {
		attributes = append(attributes, attribute.Int(keyCachedTokens, u.CachedTokens))
	}
	return attributes
}
