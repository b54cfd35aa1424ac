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
// The span of a run in the conversation starts with the run's start event, which is yielded before the agent runs. The
// events of inner scopes are yielded after the calls that they report. Therefore the span of an inner run starts with its
// first call of a model or a tool, or, without a call, at the time of its first event.
type run struct {
	id, scope   string
	agent, path string
	parent      trace.Span
	call        *call     // the tool call around an inner run
	firstSeen   time.Time // the time of its first event, if that came before its first call
	causeKnown  bool      // parent and call come from its first event

	// base is the span in the context of the run's first call. If a later call has another span in its context, the run's
	// own code has started that one.
	base trace.SpanContext

	span      trace.Span // nil before it starts
	described bool
	stopped   time.Time // the time of its end, if that is known before its end event
	ended     bool

	failure string // the code of the run's error event
	usage   llm.Usage
	used    bool // an endpoint has reported usage
}

// startRun records that a run has started.
func (t *turn) startRun(e *event.Event) {
	if e.Scope == "" {
		t.finish = ""
	}
	if t.byID[e.RunID] != nil {
		return
	}
	r := t.add(&run{id: e.RunID, scope: e.Scope, agent: e.Agent, path: e.Path}, e.TurnID)
	if e.Scope == "" {
		t.beginRun(t.ctx, r)
		return
	}
	r.firstSeen = time.Now()
	r.parent, r.call, r.causeKnown = t.cause(r, e.ParentID)
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

// cause returns the parent of an inner run: the span of its tool call, the parent of the run before it in its scope, or
// the run that started it.
func (t *turn) cause(r *run, parentID string) (parent trace.Span, under *call, certain bool) {
	for _, c := range t.calls {
		if c.id == parentID {
			return c.span, c, false
		}
	}
	id, end := strings.CutSuffix(parentID, ":harness_end")
	if before := t.byID[id]; end && before != nil {
		return before.parent, before.call, true
	}
	id, start := strings.CutSuffix(parentID, ":harness_start")
	if around := t.byID[id]; start && around != nil {
		if around.span == nil { // a nested workflow makes no calls itself
			t.beginRun(t.ctx, around)
		}
		return around.span, around.call, true
	}
	return t.span, nil, false
}

// ensureSpan starts the span of a run without a call: the run of an agent without a model, or a run that resumes after a
// crash and started in an earlier part of the turn.
func (t *turn) ensureSpan(e *event.Event) {
	r := t.byID[e.RunID]
	if r == nil && e.Scope == "" {
		r = t.add(&run{id: e.RunID, agent: e.Agent, path: e.Path}, e.TurnID)
	}
	if r != nil && r.span == nil {
		t.beginRun(t.ctx, r)
	}
}

// runOf returns the run that makes a call, and starts its span if necessary. It returns nil if the turn has ended.
func (t *turn) runOf(ctx context.Context, inv *agent.Invocation) *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	r := t.byID[inv.RunID()]
	if r == nil {
		r = t.add(&run{id: inv.RunID(), scope: inv.Scope(), agent: inv.Agent().Name(), path: inv.Node().Path}, inv.TurnID())
	}
	if r.span == nil {
		if r.scope == "" {
			t.beginRun(t.ctx, r)
		} else {
			found, ours := t.agents.in(ctx)
			r.base = found.SpanContext()
			if !r.causeKnown || !ours || t.agents.run.Load() == nil { // otherwise a span of the surrounding code
				r.parent, r.call = found, t.placeOf(ctx).call
			}
			t.beginRun(ctx, r)
		}
	}
	return r
}

func (t *turn) beginRun(ctx context.Context, r *run) {
	start := r.firstSeen
	if start.IsZero() {
		start = time.Now()
	}
	if before := t.latest[r.scope]; before != nil && before != r && before.stopped.IsZero() {
		before.stopped = start // a scope runs one run at a time
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

// describe adds the attributes that are known only from a call of the run's model.
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

// addUsage adds the usage of an attempt at an answer to that of the run.
func (t *turn) addUsage(r *run, u llm.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.used = true
	r.usage = r.usage.Add(u)
}

// runEnded ends the span of a run with the data of the run's end event.
func (t *turn) runEnded(e *event.Event, d *event.HarnessEnd) {
	if e.Scope == "" {
		t.finish = d.FinishReason
		t.agents.run.Store(nil)
	}
	r := t.byID[e.RunID]
	if r == nil || r.ended {
		return // the run belongs to an earlier turn, which this turn has closed
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

// measureNode records the duration of a run if it is that of a graph's node and started in this part of the turn.
func (t *turn) measureNode(r *run) {
	graph := t.byID[event.ParentRun(r.scope)]
	if graph == nil || r.firstSeen.IsZero() || !t.node.Enabled(t.ctx) {
		return
	}
	attributes := []attribute.KeyValue{attribute.String(keyGraph, graph.agent), attribute.String(keyAgentName, r.agent)}
	if r.failure != "" {
		attributes = append(attributes, attribute.String(keyErrorType, r.failure))
	}
	t.node.Record(t.ctx, time.Since(r.firstSeen).Seconds(), metric.WithAttributes(attributes...))
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
