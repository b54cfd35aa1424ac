package runner

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Run gives the user's message to the session's active agent and yields what
// happens, stored events in the order of the log, until the turn is over. The
// message's content is stored word for word.
//
// An error comes last and ends the turn: agent.ErrBadInput, agent.ErrSessionBusy and,
// with the option [At], agent.ErrConflict before anything was stored; an *agent.RunError when an
// agent failed or a limit was reached, with an error event before it; else the
// store's or the context's. The session stays usable after each. Breaking out of
// the loop cancels the turn and stores nothing more.
func (r *Runner) Run(ctx context.Context, key session.Key, msg llm.Message, opts ...TurnOption) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		o, err := turnOptionsOf(key, msg, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		r.events(ctx, key, &msg, func(t *opening) error { return t.begin(msg, o) }, (*scope).run, yield)
	}
}

// Resume continues a turn that a crash or a cancellation cut off, from the log
// alone: what is recorded is not asked for again, inside of agents that tools and graphs run
// as well. A tool whose outcome is unknown is run again only if it is idempotent or
// resumable. Without an unfinished turn the
// sequence is empty.
//
// A turn that ended to wait for something else, such as an authorization that a remote
// agent asks for, continues with a new run of the same agent, which checks whether it
// has arrived.
//
// A turn that waits for approvals continues with the decisions given, in any
// process, also days after the question; what is not decided keeps waiting. A
// call that was decided and settled before is not run again: its recorded result
// is yielded. An error that is [ErrNoApproval] says that nobody asked about a
// call; nothing is stored then. In a fork, a call that the other session made cannot be approved.
// Resume denies it there, even without decisions, and the model reads that the call belongs to the other session.
func (r *Runner) Resume(ctx context.Context, key session.Key, decisions ...Decision) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := session.CheckKey(key); err != nil {
			yield(nil, err)
			return
		}
		r.events(ctx, key, nil, func(t *opening) error {
			if len(decisions) == 0 && t.cached.fold.Waits() {
				return t.lookAgain()
			}
			return t.resume(decisions)
		}, (*scope).run, yield)
	}
}

// History yields all stored events of a session, oldest first.
func (r *Runner) History(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error] {
	return r.store.Load(ctx, key, 0)
}

// events gives what a turn yields, or a part of one, to its consumer.
func (r *Runner) events(ctx context.Context, key session.Key, msg *llm.Message, begin func(*opening) error, run func(*scope) error, yield func(*event.Event, error) bool) {
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

// turn takes the lease, brings the session up to date, opens the turn with
// begin and lets run take its steps. A turn that is fresh begins with a message.
func (r *Runner) turn(ctx context.Context, key session.Key, fresh bool, yield func(*event.Event, error) bool, begin func(*opening) error, run func(*scope) error) {
	t := newTurn(ctx, r.setup, key)
	ctx = t.ctx
	defer t.cancel(nil)
	o := &opening{turn: t}
	begun, err := t.beginUnleased(fresh, func() error { return begin(o) })
	if !begun && err == nil {
		t.held = time.Now()
		t.lease, err = r.acquire(ctx, key)
	}
	if err != nil {
		yield(nil, err)
		return
	}
	renewal := t.keepLease(key)
	defer func() {
		renewal.stop()
		if t.released {
			return
		}
		w := session.Write{Lease: t.lease, Abandon: t.abandons(context.Cause(ctx))}
		w.Release = !w.Abandon
		if _, err := r.store.Write(context.WithoutCancel(ctx), key, w); err != nil && !errors.Is(err, agent.ErrConflict) {
			r.logger.Warn("the lease could not be given back", "session", key.String(), "error", err)
		}
	}()
	if !begun {
		if err := t.take(key); err != nil {
			t.failed = err
			yield(nil, err)
			return
		}
	}
	defer t.leave()
	if r.limits.Time > 0 {
		limit := &agent.LimitError{Name: "seconds of wall time", Limit: int64(r.limits.Time.Seconds())}
		if r.limits.Time%time.Second != 0 {
			limit = &agent.LimitError{Name: "milliseconds of wall time", Limit: r.limits.Time.Milliseconds()}
		}
		timer := time.AfterFunc(r.limits.Time, func() { t.cancel(limit) })
		defer timer.Stop()
	}
	if !begun {
		if err := begin(o); err != nil {
			yield(nil, err)
			return
		}
	}
	s := newScope(ctx, t, "", r.tree)
	s.cancel, s.again, s.runtime = t.cancel, o.resumed, runtime{s}
	s.sink = &consumer{delivery: &s.delivery, yield: yield}
	for _, e := range o.recalled {
		if !s.hand(e, yield) {
			return
		}
	}
	if !s.deliver() {
		return
	}
	if err := run(s); err != nil && !s.stopped {
		t.failed = err
		yield(nil, err)
	}
}
