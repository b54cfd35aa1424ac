package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Preview is the request that the model of an agent would get.
type Preview struct {
	*llm.Request
	// Tokens is the size of the request, by the runner's token counter.
	Tokens int
	// Model is the model that would get the request.
	Model llm.Model
}

// Preview returns the request that the model of an agent would get if the session continued with it now. It may be
// the request that asks who answers. It is nil for an agent without a model. Preview also caches the session.
func (r *Runner) Preview(ctx context.Context, key session.Key, name string) (*Preview, error) {
	w, err := r.cache.upToDate(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	defer r.cache.checkIn(w)
	return r.preview(ctx, w, name)
}

// PreviewAt returns the request that the model of an agent would have got when the session's log ended at a position.
// The error is [agent.ErrBadInput] if the log has no such position.
func (r *Runner) PreviewAt(ctx context.Context, key session.Key, seq int64, name string) (*Preview, error) {
	w, err := r.sessionAt(ctx, key, seq)
	if err != nil {
		return nil, err
	}
	return r.preview(ctx, w, name)
}

// sessionAt returns a session as it was at a position.
func (r *setup) sessionAt(ctx context.Context, key session.Key, seq int64) (*cachedSession, error) {
	w := &cachedSession{key: key}
	for e, err := range r.store.Load(ctx, key, 0) {
		if err != nil {
			return nil, err
		}
		if e.Seq > seq {
			break
		}
		w.apply(e)
		w.tail = append(w.tail, e)
	}
	if len(w.tail) > maxTail {
		w.tail = nil
	}
	if w.fold.Seq != seq {
		return nil, fmt.Errorf("session %s has no position %d: %w", key, seq, agent.ErrBadInput)
	}
	return w, nil
}

func (r *Runner) preview(ctx context.Context, w *cachedSession, name string) (preview *Preview, failed error) {
	failed = r.readOnlyTurn(ctx, w).withNextRequest(name, func(_ *scope, _ *agent.Invocation, model llm.Model, req *llm.Request) error {
		preview = &Preview{req, llm.CountRequest(req, r.counter), model}
		return nil
	})
	return preview, failed
}

// Sample is an answer of a model that is not stored.
type Sample struct {
	// Message has the text, the reasoning and the calls of the answer. The calls are not run.
	llm.Message
	// Model is the name of the model that answered: the endpoint's if it reports one, otherwise that of the llm.Model.
	Model string
	// Usage is zero if the endpoint does not report it.
	Usage  llm.Usage
	Finish llm.FinishReason
	// LogProbs are set if the request asks for them and the endpoint returns them.
	LogProbs []llm.LogProb
}

// Sample calls the model of an agent once, with the request of [Runner.PreviewAt]. It stores nothing, runs no tool
// and asks no guard. Interceptors run, and limits and budgets apply as if the turn continued there, but the usage of
// a sample does not count. The error is [agent.ErrBadInput] if there is no such position or agent, or the agent has
// no model; otherwise that of the limit, the budget or the model.
func (r *Runner) Sample(ctx context.Context, key session.Key, seq int64, name string) (sample *Sample, failed error) {
	w, err := r.sessionAt(ctx, key, seq)
	if err != nil {
		return nil, err
	}
	err = r.readOnlyTurn(ctx, w).withNextRequest(name, func(sc *scope, inv *agent.Invocation, model llm.Model, req *llm.Request) error {
		var text, reasoning strings.Builder
		s, sealed := &Sample{Model: model.Name()}, ""
		for c, err := range sc.runtime.Ask(ctx, inv, model, req) {
			if err != nil {
				return err
			}
			text.WriteString(c.Text)
			reasoning.WriteString(c.Reasoning)
			sealed += c.Sealed
			s.LogProbs = append(s.LogProbs, c.LogProbs...)
			if c.Call != nil {
				s.Parts = append(s.Parts, *c.Call)
			}
			if c.Usage != nil {
				s.Usage, _ = c.Usage.Plausible()
			}
			s.Model, s.Finish = cmp.Or(c.Model, s.Model), cmp.Or(c.Finish, s.Finish)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if s.Finish == "" {
			return &llm.Error{Code: llm.CodeTruncated, Retryable: true, Message: "the answer ended before its terminal signal"}
		}
		if reasoning.Len() > 0 || sealed != "" {
			s.Parts = slices.Insert(s.Parts, 0, llm.Part(llm.Reasoning{Text: reasoning.String(), Sealed: sealed}))
		}
		s.Role, s.Text, sample = llm.RoleAssistant, text.String(), s
		return nil
	})
	if err == nil && sample == nil {
		err = fmt.Errorf("the agent %q has no model of its own to ask: %w", name, agent.ErrBadInput)
	}
	return sample, err
}

// readOnlyTurn returns a turn that stores nothing.
func (r *setup) readOnlyTurn(ctx context.Context, w *cachedSession) *turn {
	t := newTurn(ctx, r, w.key)
	t.cached, t.read, t.newID = w, w.tail, randomID
	return t
}

// withNextRequest calls do with the next request to the model of an agent. If the agent has no model, it does not call
// do. A panic of the agent or of do is an error.
func (t *turn) withNextRequest(name string, do func(*scope, *agent.Invocation, llm.Model, *llm.Request) error) (failed error) {
	r, w, ctx := t.r, t.cached, t.ctx
	defer t.cancel(nil)
	n := r.tree.Node(name)
	if n == nil {
		return fmt.Errorf("runner: no agent %q in the tree: %w", name, agent.ErrBadInput)
	}
	a, ok := agent.As[requester](n.Agent)
	if !ok {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			t.forget()
			failed = r.panicked("an agent", name, p)
		}
	}()
	s := newScope(t.ctx, t, "", r.tree)
	s.runtime = runtime{s}
	conversation := w.fold.Scope("")
	run, paused := conversation.Run, w.fold.Paused()
	params := agent.InvocationParams{Node: n, Tree: r.tree, Session: s.session, Runtime: s.runtime, Streaming: r.streaming, NewID: t.newID, Logger: r.logger}
	switch {
	case run.TurnID != w.fold.Turn.ID: // the turn is over
	case (run.Open || paused) && run.Agent == name:
		params.TurnID, params.RunID = run.TurnID, run.ID
		s.setInput(run, &params)
	case !run.Open && run.Finish == event.FinishReasonTransfer && run.Target == name: // it has not started yet
		params.TurnID = run.TurnID
		s.setInput(session.Run{Transfer: conversation.Handed}, &params)
	}
	s.draft.inv = agent.NewInvocation(params)
	model, req, err := a.NextRequest(ctx, s.draft.inv)
	if err != nil {
		return err
	}
	return do(s, s.draft.inv, model, req)
}
