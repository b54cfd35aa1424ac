package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// inner is an agent that a tool runs, in a scope of the same session. It is the sink of its scope: the events, stored
// already, go back to the tool.
type inner struct {
	*scope
	via   *child // in whose place it stores, nil if it does so itself
	seen  int64  // how much of the log was handed on
	yield func(*event.Event, error) bool
}

// Run implements agent.Runtime: it runs an agent in a scope of the same session, and yields
// the scope's events, stored already. It may be called from the goroutine of a tool; the
// conversation's scope delivers the events.
func (s runtime) Run(ctx context.Context, a agent.Agent, cause string, input llm.Content) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if strings.TrimSpace(input.PlainText()) == "" {
			yield(nil, fmt.Errorf("the input of the agent %s has no words: %w", a.Name(), agent.ErrBadInput))
			return
		}
		tree, err := s.turn.r.inner.of(a)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		in := &inner{scope: innerScope(s.scope, "", tree, s.guards.around), via: via(s.scope, cause), yield: yield}
		in.bind(ctx, cancel)
		in.sink = in
		if err := in.run(cause, inputJSON(input)); err != nil && !in.stopped {
			yield(nil, err)
		}
	}
}

// innerScope makes a scope inside another one.
func innerScope(outer *scope, id string, tree *agent.Tree, around []agent.Guard) *scope {
	s := newScope(outer.ctx, outer.turn, id, tree)
	s.outer, s.host, s.guards.around, s.runtime = outer, outer.draft.run.Agent, around, runtime{s}
	return s
}

// run runs the agent in the scope that its call has opened, or in a new one.
func (s *inner) run(cause string, input json.RawMessage) error {
	events, over, err := s.enter(cause, input)
	if over || err != nil {
		return err
	}
	s.session = &scopeSession{turnSession: &s.turn.turnSession, after: s.seen}
	defer s.close()
	if err := s.append(s.ctx, events); err != nil {
		return err
	}
	err = s.scope.run()
	if run := s.turn.runOf(s.draft.scope); err == nil && run.Waits() {
		err = fmt.Errorf("%s: %w", run.Agent, agent.ErrWaits)
	}
	return err
}

// enter finds the scope in which an agent runs for a call, and makes the events by which a
// run opens there. If the call was begun before this turn was taken up, that is the scope that
// it has opened for the same agent with the same input: of several, each is entered once. One
// that is over yields what is recorded, if it was not canceled, and one for which nobody has done anything waits as
// before: the error is agent.ErrWaits.
func (s *inner) enter(cause string, input json.RawMessage) (events []*event.Event, over bool, err error) {
	t := s.turn
	run, turn := s.outer.state()
	t.mu.Lock()
	defer t.mu.Unlock()
	if run.Call(cause) != nil {
		for _, o := range t.fold().Opened(cause) {
			if o.First > t.lease.Head.Seq || t.entered[o.Scope] || o.Agent != s.tree.Root().Agent.Name() || !bytes.Equal(event.CompactJSON(o.Input), event.CompactJSON(input)) {
				continue
			}
			if t.entered == nil {
				t.entered = make(map[string]bool)
			}
			t.entered[o.Scope] = true
			s.draft.scope, s.seen = o.Scope, o.First-1
			if o.Canceled { // and what its tools did then must not be done again
				return nil, false, fmt.Errorf("the agent %s was %s", o.Agent, interrupted)
			}
			if o.Over {
				t.mu.Unlock()
				defer t.mu.Lock()
				return nil, true, s.recorded()
			}
			var goesOn bool
			if events, s.again, goesOn = t.goOn(o.Scope); !goesOn {
				err = agent.ErrWaits
			}
			return events, false, err
		}
	}
	s.draft.scope, s.seen = t.newID(), t.fold().Seq
	return []*event.Event{t.start(s.tree.Root(), turn.ID, cause, s.draft.scope, input)}, false, nil
}

// recorded hands on the events of a scope that is over, and returns the error with which it
// has ended.
func (s *inner) recorded() (failed error) {
	for e, err := range s.turn.Events(s.ctx, s.seen) {
		if err != nil {
			return err
		}
		if e.Scope != s.draft.scope {
			continue
		}
		if !s.hand(e, s.yield) {
			s.stopped = true
			return nil
		}
		switch d := e.Data.(type) {
		case *event.Failure:
			failed = &agent.RunError{Agent: e.Agent, Code: d.Code, Err: errors.New(d.Message)}
			if d.Code == event.CodeTripwire { // whose words no model reads
				failed = &agent.TripwireError{Guard: "of " + e.Agent, Agent: e.Agent, Err: failed}
			}
		case *event.HarnessStart:
			failed = nil
		}
	}
	return failed
}

// close ends a run that is still open because its tool call ended first. When
// the whole turn was cancelled nothing is stored.
func (s *inner) close() {
	t := s.turn
	t.mu.Lock()
	var events []*event.Event
	if run := t.fold().Scope(s.draft.scope).Run; run.Open {
		s.draft.events = nil // never stored
		events = t.closer().closeScope(events, s.draft.scope, interrupted)
	}
	t.mu.Unlock()
	err := s.store(t.ctx, events)
	if err != nil && s.via != nil { // the workflow does not listen any more
		err = t.append(t.ctx, events)
	}
	if err != nil {
		t.r.logger.Warn("an inner run stays open", "scope", s.draft.scope, "error", err)
	}
}

// store implements sink.
func (s *inner) store(ctx context.Context, events []*event.Event) error {
	if s.via != nil {
		return s.via.storeInner(ctx, events)
	}
	return s.turn.append(ctx, events)
}

// deliver implements sink.
func (s *inner) deliver() bool {
	if s.ctx.Err() != nil {
		return false
	}
	for e, err := range s.turn.Events(s.ctx, s.seen) {
		if err != nil {
			return false
		}
		s.seen = e.Seq
		if e.Scope == s.draft.scope && !s.hand(e, s.yield) {
			return false
		}
	}
	return true
}

// show implements sink.
func (s *inner) show(e *event.Event) bool {
	return s.ctx.Err() == nil && s.hand(e, s.yield)
}

// scopeSession is the session as agents of an inner scope get it: it begins where
// the scope does, and what they keep beside it goes with the scope. So a call of
// an agent costs the same in a long conversation, and leaves nothing behind.
type scopeSession struct {
	*turnSession
	after int64
	memos memos
}

// Events implements agent.Session.
func (s *scopeSession) Events(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return s.turnSession.Events(ctx, max(after, s.after))
}

// Memo implements agent.Session.
func (s *scopeSession) Memo(key any, create func() any) any {
	v, ok := s.memos.get(key)
	if !ok {
		v = create()
		s.memos.put(memo{key: key, value: v})
	}
	return v
}

// inputJSON is what an inner scope was given, as its first event keeps it.
func inputJSON(c llm.Content) json.RawMessage {
	if len(c.Parts) == 0 {
		return event.EncodeJSON(c.Text)
	}
	return event.EncodeJSON(strings.TrimSpace(c.PlainText()))
}
