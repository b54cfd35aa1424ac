package runner

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Preview is what the model of an agent would be asked.
type Preview struct {
	*llm.Request
	// Tokens is the size of the request, by the runner's token counter.
	Tokens int
	// Model is whom the request would go to.
	Model llm.Model
}

// Preview returns what the model of an agent would be asked if the session went
// on with it now, which may be the question who answers; nil for an agent without a model of its own. It also warms the
// session up.
func (r *Runner) Preview(ctx context.Context, key session.Key, name string) (*Preview, error) {
	w, err := r.warm(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	defer r.cache.put(w)
	return r.preview(ctx, w, name)
}

// PreviewAt returns what the model of an agent would have been asked when the
// session's log was at a position: the agent's view as it was then. The error is
// [agent.ErrBadInput] if the log has no such position.
func (r *Runner) PreviewAt(ctx context.Context, key session.Key, seq int64, name string) (*Preview, error) {
	w, err := r.past(ctx, key, seq)
	if err != nil {
		return nil, err
	}
	return r.preview(ctx, w, name)
}

// past is a session as it was at a position.
func (r *Runner) past(ctx context.Context, key session.Key, seq int64) (*warm, error) {
	w := &warm{key: key}
	for e, err := range r.store.Load(ctx, key, 0) {
		if err != nil {
			return nil, err
		}
		if e.Seq > seq {
			break
		}
		w.apply(e)
	}
	if w.fold.Seq != seq {
		return nil, fmt.Errorf("session %s has no position %d: %w", key, seq, agent.ErrBadInput)
	}
	return w, nil
}

func (r *Runner) preview(ctx context.Context, w *warm, name string) (preview *Preview, failed error) {
	failed = r.imagine(ctx, w, name, func(_ *lane, _ *agent.Invocation, model llm.Model, req *llm.Request) error {
		preview = &Preview{req, llm.CountRequest(req, r.tokens), model}
		return nil
	})
	return preview, failed
}

// Sample is an answer of a model that nobody has stored.
type Sample struct {
	// Message has the words, the calls, which nobody runs, and the reasoning.
	llm.Message
	// Model is the name of the model that answered, as its endpoint gives it if it does.
	Model string
	// Usage is what the answer has used, zero if the endpoint does not say.
	Usage  llm.Usage
	Finish llm.FinishReason
	// LogProbs are those of the answer's tokens, if the request asks for them and the endpoint gives them.
	LogProbs []llm.LogProb
}

// Sample asks the model of an agent once, with the request of [Runner.PreviewAt]: what it
// might have said there. Nothing is stored, and no tool runs; guards are not asked. Interceptors
// are, and limits and budgets hold as if the turn went on there, but what a sample uses is counted in
// none. The error is agent.ErrBadInput if there is no such position or agent, or the agent has no
// model of its own; else that of the limit, the budget or the model.
func (r *Runner) Sample(ctx context.Context, key session.Key, seq int64, name string) (sample *Sample, failed error) {
	w, err := r.past(ctx, key, seq)
	if err != nil {
		return nil, err
	}
	err = r.imagine(ctx, w, name, func(l *lane, inv *agent.Invocation, model llm.Model, req *llm.Request) error {
		var text, reasoning strings.Builder
		s, sealed := &Sample{Model: model.Name()}, ""
		for c, err := range l.Ask(ctx, inv, model, req) {
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

// imagine gives what the model of an agent would be asked in a session to a function, unless the
// agent has none. A panic of the agent, or of the function, is an error.
func (r *Runner) imagine(ctx context.Context, w *warm, name string, do func(*lane, *agent.Invocation, llm.Model, *llm.Request) error) (failed error) {
	n := r.tree.Node(name)
	if n == nil {
		return fmt.Errorf("runner: no agent %q in the tree: %w", name, agent.ErrBadInput)
	}
	a, ok := agent.As[interface {
		Asks(context.Context, *agent.Invocation) (llm.Model, *llm.Request, error)
	}](n.Agent)
	if !ok {
		return nil
	}
	t := &turn{r: r, key: w.key, w: w, ctx: ctx, newID: new(idPool).next, read: w.tail}
	defer func() {
		if p := recover(); p != nil {
			t.forget()
			r.logger.Error("an agent panicked", "agent", name, "panic", p, "stack", string(debug.Stack()))
			failed = &agent.RunError{Agent: name, Code: event.CodeInternal, Err: fmt.Errorf("internal error: %v", p)}
		}
	}()
	l := &lane{t: t, session: t, ctx: ctx, tree: r.tree}
	conversation := w.fold.Scope("")
	run, paused := conversation.Run, w.fold.Paused()
	params := agent.InvocationParams{Node: n, Tree: r.tree, Session: t, Runtime: l, Streaming: r.streaming, NewID: t.newID, Logger: r.logger}
	switch {
	case run.TurnID != w.fold.Turn.ID: // the turn is over
	case (run.Open || paused) && run.Agent == name:
		params.TurnID, params.RunID = run.TurnID, run.ID
		l.origin(run, &params)
	case !run.Open && run.Finish == event.FinishReasonTransfer && run.Target == name: // it has not started yet
		params.TurnID = run.TurnID
		l.origin(session.Run{Transfer: conversation.Handed}, &params)
	}
	l.inv = agent.NewInvocation(params)
	model, req, err := a.Asks(ctx, l.inv)
	if err != nil {
		return err
	}
	return do(l, l.inv, model, req)
}
