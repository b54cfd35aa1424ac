package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// current is the span in the context of the conversation's agents. All runs of a turn get the same context, one after the
// other. Therefore this span delegates to the span of the current run, or to that of the turn between two runs. Spans that
// an agent starts itself, for example for an HTTP request to a remote agent, are then children of its run.
type current struct {
	trace.Span // of the turn
	run        atomic.Pointer[run]
}

func (c *current) now() trace.Span {
	if r := c.run.Load(); r != nil {
		return r.span
	}
	return c.Span
}

// in returns the span of a context. If that is this one, in returns the span to which it delegates, and true. It does not
// compare spans with ==, because spans that do not record need not be comparable.
func (c *current) in(ctx context.Context) (s trace.Span, ours bool) {
	s = trace.SpanFromContext(ctx)
	if found, ok := s.(*current); ok && found == c {
		return c.now(), true
	}
	return s, false
}

// End does nothing, because agents must not end the span of their run.
func (c *current) End(...trace.SpanEndOption) {}

func (c *current) SpanContext() trace.SpanContext { return c.now().SpanContext() }
func (c *current) IsRecording() bool              { return c.now().IsRecording() }
func (c *current) SetName(name string)            { c.now().SetName(name) }
func (c *current) AddLink(l trace.Link)           { c.now().AddLink(l) }

func (c *current) SetAttributes(a ...attribute.KeyValue) { c.now().SetAttributes(a...) }
func (c *current) SetStatus(code codes.Code, description string) {
	c.now().SetStatus(code, description)
}
func (c *current) AddEvent(name string, o ...trace.EventOption)  { c.now().AddEvent(name, o...) }
func (c *current) RecordError(err error, o ...trace.EventOption) { c.now().RecordError(err, o...) }

// within returns the context for a call of a run: with the run's span, or with a span that the run's own code has started
// below it.
func (t *turn) within(ctx context.Context, r *run) context.Context {
	found, ours := t.agents.in(ctx)
	if r.scope == "" && !ours || r.scope != "" && !found.SpanContext().Equal(r.base) {
		return ctx
	}
	return trace.ContextWithSpan(ctx, r.span)
}
