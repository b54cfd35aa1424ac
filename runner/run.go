package runner

import (
	"context"
	"errors"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Run sends the user's message to the session's active agent and yields the events of the turn, stored events in the
// order of the log, until the turn has ended or waits. The message's content is stored unchanged.
//
// An error comes last and ends the turn. Before anything was stored, it is [agent.ErrBadInput],
// [agent.ErrSessionBusy] or, with the option [At], [agent.ErrConflict]. If an agent failed or a limit was reached, it
// is an *[agent.RunError], after an error event. Otherwise it is an error of the store or of the context. The session
// stays usable after each error. If the caller breaks out of the loop, the turn is canceled and stores nothing more,
// except, under a budget, the usage of the answers that it breaks off, and the usage of a request that
// [WithAnticipation] has sent early.
func (r *Runner) Run(ctx context.Context, key session.Key, msg llm.Message, opts ...TurnOption) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		o, err := turnOptionsOf(key, msg, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		begin := func(t *opening) error { return t.beginTurn(msg, o) }
		r.interceptTurn(ctx, part{key, &msg, begin, (*scope).runSteps}, yield)
	}
}

// Resume continues a turn that a crash or a cancellation interrupted, from the log alone. It does not repeat a model
// call or a tool call whose result the log has, in agents that tools and graphs run too. It runs a tool with an unknown
// outcome again only if the tool is idempotent or resumable. If there is no unfinished turn, the sequence is empty.
//
// If the turn waits for something outside, such as an authorization at a remote agent, Resume starts a new run of the
// same agent, which checks whether it has arrived.
//
// If the turn waits for approvals, Resume stores the decisions and continues, in any process, days later too. Calls
// without a decision keep waiting. A repeated decision does not run its call again; Resume yields the stored result.
// The error is [ErrNoApproval] if a decision is for a call without a question, or for one that was decided otherwise;
// then nothing is stored. In a fork, a call that the other session made cannot be approved. Resume denies it there,
// even without decisions, and the model reads that the call belongs to the other session.
func (r *Runner) Resume(ctx context.Context, key session.Key, decisions ...Decision) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		begin := func(t *opening) error {
			if len(decisions) == 0 && t.fold().Waits() {
				return t.resumeWaiting()
			}
			return t.resumeTurn(decisions)
		}
		r.interceptTurn(ctx, part{key, nil, begin, (*scope).runSteps}, yield)
	}
}

// History yields all stored events of a session, oldest first.
func (r *Runner) History(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error] {
	return r.store.Load(ctx, key, 0)
}

// part is a turn of a session, or a part of one.
type part struct {
	key   session.Key
	msg   *llm.Message         // the message that starts the turn, nil for another part
	begin func(*opening) error // stores the first events
	steps func(*scope) error   // runs the steps after that
}

// noSteps runs no steps.
func noSteps(*scope) error { return nil }

// interceptTurn runs a part of a turn inside the interceptors.
func (r *Runner) interceptTurn(ctx context.Context, p part, yield func(*event.Event, error) bool) {
	if err := session.CheckKey(p.key); err != nil {
		yield(nil, err)
		return
	}
	if len(r.interceptors) == 0 {
		r.runTurn(ctx, p, yield)
		return
	}
	turn := agent.TurnFunc(func(ctx context.Context) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) { r.runTurn(ctx, p, yield) }
	})
	info := agent.TurnInfo{Session: p.key, Message: p.msg, Root: r.tree.Root().Agent.Name(), Tree: r.tree}
	for i := len(r.interceptors) - 1; i >= 0; i-- {
		outer, inner := r.interceptors[i], turn
		turn = func(ctx context.Context) iter.Seq2[*event.Event, error] { return outer.Turn(ctx, info, inner) }
	}
	events := turn(ctx)
	if events == nil {
		yield(nil, errors.New("an interceptor returned no events for the turn: Turn must return the sequence of its inner function, or its own"))
		return
	}
	events(yield)
}

// runTurn acquires the lease, loads the session, stores the first events of the turn, and runs its steps.
func (r *Runner) runTurn(ctx context.Context, p part, yield func(*event.Event, error) bool) {
	t := newTurn(ctx, r.setup, p.key)
	defer t.cancel(nil)
	o := &opening{turn: t}
	begun, err := t.beginUnleased(p.msg != nil, func() error { return p.begin(o) })
	if !begun && err == nil {
		err = t.acquireLease()
	}
	if err != nil {
		yield(nil, err)
		return
	}
	t.keepLease()
	defer t.giveLeaseBack()
	if !begun {
		if err := t.checkOutSession(); err != nil {
			t.failed = err
			yield(nil, err)
			return
		}
	}
	defer t.checkInSession()
	if r.limits.Time > 0 {
		defer t.limitTime().Stop()
	}
	if !begun {
		if err := p.begin(o); err != nil {
			yield(nil, err)
			return
		}
	}
	s := o.conversation(yield)
	for _, e := range o.recalled {
		if !s.yieldEvent(e, yield) {
			return
		}
	}
	if !s.deliver() {
		return
	}
	if p.msg != nil && r.config.anticipates {
		t.anticipation = new(anticipation)
		defer t.anticipation.close()
	}
	err = p.steps(s)
	s.recordUsage(err)
	s.recordCut(err)
	if err != nil && !s.stopped {
		t.failed = err
		yield(nil, err)
	}
}

// conversation returns the scope of the user's conversation.
func (t *opening) conversation(yield func(*event.Event, error) bool) *scope {
	s := newScope(t.ctx, t.turn, "", t.r.tree)
	s.cancel, s.resumed, s.runtime = t.cancel, t.resumed, runtime{s}
	s.sink = &consumer{delivery: &s.delivery, yield: yield}
	return s
}

// collectEvents runs a part of a turn and returns what it stored.
func (r *Runner) collectEvents(ctx context.Context, p part) (events []*event.Event, failed error) {
	r.interceptTurn(ctx, p, func(e *event.Event, err error) bool {
		switch {
		case err != nil:
			failed = err
		case !e.Partial:
			events = append(events, e)
		}
		return true
	})
	return events, failed
}
