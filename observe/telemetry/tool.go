package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// call is a call of a tool, which may start runs of agents.
type call struct {
	id    string
	span  trace.Span
	place place
}

// ToolCall implements agent.Interceptor. The span of a call is a child of the run that makes it. Only the call of a transfer
// is a sibling of that run, because it belongs to neither of the two agents.
func (i *interceptor) ToolCall(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (res *event.ToolResult, err error) {
	ctx, now := i.startCall(ctx, c)
	how := panicked // unless it is set below
	defer func() { i.endCall(ctx, now, how, res, err) }()
	res, err = next(ctx, c.Input)
	how = completed
	return res, err
}

func (i *interceptor) startCall(ctx context.Context, c agent.ToolCallInfo) (context.Context, *call) {
	now := &call{id: c.ID}
	t := i.placeOf(ctx).turn
	var r *run
	if t != nil {
		r = t.runOf(ctx, c.Invocation)
	}
	switch {
	case r == nil:
	case c.Name == agent.TransferTool:
		ctx = trace.ContextWithSpan(ctx, r.parent)
	default:
		ctx = t.within(ctx, r)
	}
	ctx, now.span = i.tracer.Start(ctx, opTool+" "+c.Name, trace.WithAttributes(
		attribute.String(keyOperation, opTool), attribute.String(keyToolName, c.Name), attribute.String(keyToolCallID, c.ID)))
	if now.span.IsRecording() {
		now.span.SetAttributes(attribute.String(keyToolType, "function"), attribute.String(keyAgentName, c.Invocation.Agent().Name()))
		if t != nil {
			now.span.SetAttributes(attribute.String(keyConversation, t.conversation))
		}
		if i.content {
			now.span.SetAttributes(attribute.String(keyToolArguments, string(c.Input)))
		}
	}
	if r == nil {
		return ctx, now
	}
	now.place = place{t, now}
	t.mu.Lock()
	t.calls = append(t.calls, now)
	t.mu.Unlock()
	return context.WithValue(ctx, placeKey{i}, &now.place), now
}

func (i *interceptor) endCall(ctx context.Context, c *call, how ending, res *event.ToolResult, err error) {
	if t := c.place.turn; t != nil {
		t.stopRuns(c, time.Now())
	}
	switch {
	case how == panicked:
		i.fail(c.span, "panic", nil)
	case err != nil:
		i.fail(c.span, errorClass(ctx, err), err)
	case res != nil && res.IsError:
		i.fail(c.span, "tool_error", nil)
	}
	if i.content && res != nil && c.span.IsRecording() {
		c.span.SetAttributes(attribute.String(keyToolResult, string(res.Output)))
	}
	c.span.End()
}
