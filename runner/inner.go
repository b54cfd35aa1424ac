package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
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
			yield(nil, fmt.Errorf("the input of the agent %s has no text: %w", a.Name(), agent.ErrBadInput))
			return
		}
		tree, err := s.turn.r.inner.treeOf(a)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		in := &inner{scope: innerScope(s.scope, "", tree, s.guards.around), via: viaChild(s.scope, cause), yield: yield}
		in.bind(ctx, cancel)
		in.sink = in
		if err := in.runCall(cause, inputJSON(input)); err != nil && !in.stopped {
			yield(nil, err)
		}
	}
}

// runCall runs the agent in the scope that its call has opened, or in a new one.
func (s *inner) runCall(cause string, input json.RawMessage) error {
	events, over, err := s.enterScope(cause, input)
	if over || err != nil {
		return err
	}
	s.session = &scopeSession{turnSession: &s.turn.turnSession, after: s.seen}
	defer s.closeRun()
	if err := s.commit(s.ctx, events); err != nil {
		return err
	}
	err = s.scope.runSteps()
	if run := s.turn.runOf(s.draft.scope); err == nil && run.Waits() {
		err = fmt.Errorf("%s: %w", run.Agent, agent.ErrWaits)
	}
	return err
}

// enterScope finds the scope in which an agent runs for a call, and makes the events by which a
// run opens there. If the call was begun before this turn was taken up, that is the scope that
// it has opened for the same agent with the same input: of several, each is entered once. One
// that is over yields what is recorded, if it was not canceled. One that still waits returns the error
// agent.ErrWaits.
func (s *inner) enterScope(cause string, input json.RawMessage) (events []*event.Event, over bool, err error) {
	t := s.turn
	run, turn := s.outer.runAndTurn()
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
				return nil, true, s.replayRecorded()
			}
			var continues bool
			if events, s.resumed, continues = t.resumeInner(o.Scope); !continues {
				err = agent.ErrWaits
			}
			return events, false, err
		}
	}
	s.draft.scope, s.seen = t.newID(), t.fold().Seq
	return []*event.Event{t.startEvent(s.tree.Root(), turn.ID, cause, s.draft.scope, input)}, false, nil
}

// replayRecorded hands on the events of a scope that is over, and returns the error with which it
// has ended.
func (s *inner) replayRecorded() (failed error) {
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

// closeRun ends a run that is still open because its tool call ended first. When
// the whole turn was cancelled nothing is stored.
func (s *inner) closeRun() {
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
		err = t.appendEvents(t.ctx, events)
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
	return s.turn.appendEvents(ctx, events)
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

// inputJSON is what an inner scope was given, as its first event keeps it.
func inputJSON(c llm.Content) json.RawMessage {
	if len(c.Parts) == 0 {
		return event.EncodeJSON(c.Text)
	}
	return event.EncodeJSON(strings.TrimSpace(c.PlainText()))
}

// viaChild returns the child through which the scope of an agent tool stores its
// events. It is nil if the scope stores them itself, because no agent that a workflow has
// started runs next to it: then there is no order to keep.
func viaChild(s *scope, call string) *child {
	of := childAround(s)
	if of == nil {
		return nil
	}
	s.turn.mu.Lock()
	defer s.turn.mu.Unlock()
	place := slices.IndexFunc(s.turn.fold().Scope(s.draft.scope).Run.Pending, func(c session.Call) bool { return c.ID == call })
	return &child{group: of.group, spec: of.spec, number: of.number, call: 2 + place}
}

// childAround returns the child that a scope runs in, or nil if no other agent runs next to the
// scope. Scopes inside of it store their events as that child does.
func childAround(s *scope) *child {
	switch in := s.sink.(type) {
	case *inner:
		return in.via
	case *child:
		if in.inline { // it runs on the workflow's goroutine
			return childAround(in.group.outer)
		}
		return in
	}
	return nil
}
