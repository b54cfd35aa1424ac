package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// current is the span that the agents of the conversation find in their context.
// All of a turn's runs get the same context, one after the other; so this span
// delegates to that of the run which is under way, or to the turn's between two
// runs. In this way what an agent does without asking a model or a tool, such as
// calling a remote agent over HTTP, nests below its own run.
type current struct {
	trace.Span // the turn's
	run        atomic.Pointer[run]
}

func (c *current) now() trace.Span {
	if r := c.run.Load(); r != nil {
		return r.span
	}
	return c.Span
}

// in returns the span that a context's span delegates to, and whether the latter is
// this one. Two spans are never compared: those that record nothing need not be
// comparable.
func (c *current) in(ctx context.Context) (s trace.Span, ours bool) {
	s = trace.SpanFromContext(ctx)
	if found, ok := s.(*current); ok && found == c {
		return c.now(), true
	}
	return s, false
}

// End does nothing: agents do not end the span that they run in.
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

// within returns the context in which a call of the run's begins: below the
// run's span, or below one that the run's own code has started in it.
func (t *turn) within(ctx context.Context, r *run) context.Context {
	found, ours := t.agents.in(ctx)
	if r.scope == "" && !ours || r.scope != "" && !found.SpanContext().Equal(r.base) {
		return ctx
	}
	return trace.ContextWithSpan(ctx, r.span)
}
