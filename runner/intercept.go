package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// WithInterceptors wraps turns, model calls and tool calls; the first
// interceptor is the outermost. Those of a second WithInterceptors come inside.
func WithInterceptors(interceptors ...agent.Interceptor) Option {
	return func(r *Runner) { r.interceptors = append(r.interceptors, interceptors...) }
}

// events gives what a turn yields, or a part of one, to its consumer.
func (r *Runner) events(ctx context.Context, key session.Key, msg *llm.Message, begin func(*turn) error, run func(*lane) error, yield func(*event.Event, error) bool) {
	if len(r.interceptors) == 0 {
		r.turn(ctx, key, msg != nil, yield, begin, run)
		return
	}
	turn := agent.TurnFunc(func(ctx context.Context) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) { r.turn(ctx, key, msg != nil, yield, begin, run) }
	})
	info := agent.TurnInfo{Session: key, Message: msg, Root: r.tree.Root().Agent.Name(), Tree: r.tree}
	for i := len(r.interceptors) - 1; i >= 0; i-- {
		outer, inner := r.interceptors[i], turn
		turn = func(ctx context.Context) iter.Seq2[*event.Event, error] { return outer.Turn(ctx, info, inner) }
	}
	events := turn(ctx)
	if events == nil {
		yield(nil, errors.New("an interceptor gave no events of the turn"))
		return
	}
	events(yield)
}

// Ask implements agent.Runtime.
func (l *lane) Ask(ctx context.Context, inv *agent.Invocation, model llm.Model, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if err := l.reserve(inv, model, req, 0); err != nil {
		return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, err) }
	}
	if _, ok := model.(llm.Composite); ok {
		ctx = llm.WithAdmission(ctx, func(another llm.Model, req *llm.Request, beside int) error {
			return l.reserve(inv, another, req, beside)
		})
	}
	if len(l.t.r.interceptors) == 0 {
		return l.metered(model, req, model.Generate(ctx, req))
	}
	call := agent.ModelFunc(model.Generate)
	for i := len(l.t.r.interceptors) - 1; i >= 0; i-- {
		outer, inner := l.t.r.interceptors[i], call
		call = func(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
			return outer.ModelCall(ctx, agent.ModelCallInfo{Invocation: inv, Model: model, Request: req}, inner)
		}
	}
	return l.metered(model, req, call(ctx, req)) // interceptors see what the endpoint has said
}

// Call implements agent.Runtime.
func (l *lane) Call(ctx context.Context, c agent.ToolCallInfo, run agent.ToolFunc) (_ *event.ToolResult, failed error) {
	if err := l.withinToolCalls(c.ID); err != nil {
		return nil, err
	}
	if len(l.t.r.interceptors) == 0 {
		return run(ctx, c.Input)
	}
	defer func() { // tools run on goroutines of their own
		if p := recover(); p != nil {
			l.t.r.logger.Error("an interceptor panicked", "tool", c.Name, "panic", p, "stack", string(debug.Stack()))
			failed = &agent.RunError{Agent: c.Invocation.Agent().Name(), Code: event.CodeInternal, Err: fmt.Errorf("internal error: %v", p)}
		}
	}()
	for i := len(l.t.r.interceptors) - 1; i >= 0; i-- {
		outer, inner := l.t.r.interceptors[i], run
		run = func(ctx context.Context, input json.RawMessage) (*event.ToolResult, error) {
			c := c
			c.Input = input
			return outer.ToolCall(ctx, c, inner)
		}
	}
	res, err := run(ctx, c.Input)
	switch {
	case err != nil:
		return nil, err
	case res == nil:
		return nil, fmt.Errorf("an interceptor answered the call of %s with neither a result nor an error", c.Name)
	case !event.TooDeep(res.Output) && !json.Valid(res.Output):
		res = &event.ToolResult{Name: c.Name, Output: event.EncodeJSON(string(res.Output)), IsError: res.IsError}
	}
	return res, nil
}
