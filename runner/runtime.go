package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// runtime implements agent.Runtime and workflow.Runtime for the agents of a scope. The goroutines of tools may call
// its methods.
type runtime struct{ *scope }

// Ask implements agent.Runtime.
func (s runtime) Ask(ctx context.Context, inv *agent.Invocation, model llm.Model, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	var early *anticipation
	err := ctx.Err() // no endpoint would be asked
	if err == nil {
		early, err = s.adoptEarly(inv, model, req)
	}
	if err == nil && early == nil { // the discard of another early request was written
		err = ctx.Err()
	}
	if err == nil {
		err = s.meter.reserve(inv.Agent().Name(), model, req, 0)
	}
	switch {
	case err == nil && early != nil:
		return s.meter.metered(model, req, early.replay(ctx))
	case err != nil && early != nil:
		s.draft.addData(early.discard())
	}
	if err != nil {
		return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, err) }
	}
	s.anticipate(ctx, inv, model, req)
	if _, ok := model.(llm.Composite); ok {
		ctx = llm.WithAdmission(ctx, func(another llm.Model, req *llm.Request, parallel int) error {
			return s.meter.reserve(inv.Agent().Name(), another, req, parallel)
		})
	}
	answer := s.meter.metered(model, req, s.call(ctx, inv, model, req)) // interceptors see the usage as the endpoint reports it
	if a := s.openAnticipation(); a != nil && len(req.Tools) > 0 {
		return a.watch(answer)
	}
	return answer
}

// call asks a model through the interceptors.
func (s runtime) call(ctx context.Context, inv *agent.Invocation, model llm.Model, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if len(s.turn.r.interceptors) == 0 {
		return model.Generate(ctx, req)
	}
	call := agent.ModelFunc(model.Generate)
	for i := len(s.turn.r.interceptors) - 1; i >= 0; i-- {
		outer, inner := s.turn.r.interceptors[i], call
		call = func(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
			return outer.ModelCall(ctx, agent.ModelCallInfo{Invocation: inv, Model: model, Request: req}, inner)
		}
	}
	return call(ctx, req)
}

// Call implements agent.Runtime.
func (s runtime) Call(ctx context.Context, c agent.ToolCallInfo, run agent.ToolFunc) (_ *event.ToolResult, failed error) {
	if err := s.meter.withinToolCalls(c.ID); err != nil {
		return nil, err
	}
	if len(s.turn.r.interceptors) == 0 {
		return run(ctx, c.Input)
	}
	defer func() { // tools run on goroutines of their own
		if p := recover(); p != nil {
			failed = s.turn.r.panicked("an interceptor", c.Invocation.Agent().Name(), p)
		}
	}()
	for i := len(s.turn.r.interceptors) - 1; i >= 0; i-- {
		outer, inner := s.turn.r.interceptors[i], run
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

// CheckTransfer implements agent.Runtime.
func (s runtime) CheckTransfer(ctx context.Context, inv *agent.Invocation, to string) error {
	target, err := s.transfers.allowedTarget(inv, to)
	if err != nil {
		return err
	}
	return s.transfers.checkReady(ctx, target)
}

// SaveFile implements agent.Runtime.
func (s runtime) SaveFile(ctx context.Context, name, mediaType string, data []byte) (*event.File, error) {
	return s.turn.saveFile(ctx, name, mediaType, data)
}

// Suspended implements agent.Runtime.
func (s runtime) Suspended() bool {
	cause := context.Cause(s.turn.ctx)
	if errors.Is(cause, agent.ErrSuspended) || errors.Is(cause, agent.ErrConflict) || errors.Is(cause, session.ErrUnavailable) {
		return true
	}
	s.turn.mu.Lock()
	defer s.turn.mu.Unlock()
	return !s.turn.hasLease()
}

// innerScope creates a scope inside another one.
func innerScope(outer *scope, id string, tree *agent.Tree, around []agent.Guard) *scope {
	s := newScope(outer.ctx, outer.turn, id, tree)
	s.outer, s.host, s.guards.around, s.runtime = outer, outer.draft.run.Agent, around, runtime{s}
	return s
}
