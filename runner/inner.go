package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// inner is the scope of an agent that a tool runs. It is also the sink of that scope: it yields the scope's events to
// the tool, after they were stored.
type inner struct {
	*scope
	via   *child // stores the events in the order of its group; nil: the scope stores them itself
	seen  int64  // the position of the last event that the tool has received
	yield func(*event.Event, error) bool
}

// Run implements agent.Runtime: it runs an agent in a scope of the same session, and yields the events of the scope
// after they were stored. It may be called on the goroutine of a tool. The conversation's scope delivers the events to
// the consumer of the turn.
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

// runCall runs the agent in the scope that its call opened before, or in a new scope.
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

// enterScope chooses the scope in which the agent runs for a call, and returns the events that open a run there. If the
// call began before this turn was resumed, it chooses the scope that the call opened then for the same agent with the
// same input; if the call opened several, it enters each of them once. If that scope is over, enterScope yields its
// recorded events and reports over. It returns an error for a scope that was canceled, and agent.ErrWaits for a scope
// that still waits.
func (s *inner) enterScope(cause string, input json.RawMessage) (events []*event.Event, over bool, err error) {
	t := s.turn
	run, turn := s.outer.turn.runAndTurn(s.outer.draft.scope)
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
			if o.Canceled { // its tools must not run again
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

// replayRecorded yields the events of a scope that is over, and returns the error with which the scope ended.
func (s *inner) replayRecorded() (failed error) {
	for e, err := range s.turn.Events(s.ctx, s.seen) {
		if err != nil {
			return err
		}
		if e.Scope != s.draft.scope {
			continue
		}
		if !s.yieldEvent(e, s.yield) {
			s.stopped = true
			return nil
		}
		switch d := e.Data.(type) {
		case *event.Failure:
			failed = &agent.RunError{Agent: e.Agent, Code: d.Code, Err: recordedError{d}}
			if d.Code == event.CodeTripwire { // no model may read the text that tripped the guard
				failed = &agent.TripwireError{Guard: "of " + e.Agent, Agent: e.Agent, Err: failed}
			}
		case *event.HarnessStart:
			failed = nil
		}
	}
	return failed
}

// recordedError is an error that the log has. Public returns the same text as the original error, or a shorter one.
type recordedError struct{ *event.Failure }

func (e recordedError) Error() string { return e.Message }

func (e recordedError) Public() string {
	if e.Code == errorCode(nil) { // of a function or a tool
		return e.Message
	}
	return e.Failure.Public().Message
}

// closeRun ends a run that is still open because its tool call ended first. If the whole turn was canceled, the write
// fails and stores nothing.
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
	if err != nil && s.via != nil { // the workflow no longer stores events of its children
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
		if e.Scope == s.draft.scope && !s.yieldEvent(e, s.yield) {
			return false
		}
	}
	return true
}

// show implements sink.
func (s *inner) show(e *event.Event) bool {
	return s.ctx.Err() == nil && s.yieldEvent(e, s.yield)
}

// inputJSON returns the input of an inner scope as its first event stores it: the text as a JSON string.
func inputJSON(c llm.Content) json.RawMessage {
	if len(c.Parts) == 0 {
		return event.EncodeJSON(c.Text)
	}
	return event.EncodeJSON(strings.TrimSpace(c.PlainText()))
}

// viaChild returns the child through which the scope of an agent tool stores its events, so that the events of agents
// that a workflow runs side by side have a fixed order. It returns nil if no such agent runs next to the scope, which
// then stores its events itself.
func viaChild(s *scope, call string) *child {
	around := childAround(s)
	if around == nil {
		return nil
	}
	s.turn.mu.Lock()
	defer s.turn.mu.Unlock()
	place := slices.IndexFunc(s.turn.fold().Scope(s.draft.scope).Run.Pending, func(c session.Call) bool { return c.ID == call })
	return &child{group: around.group, spec: around.spec, number: around.number, call: 2 + place}
}

// childAround returns the child of a workflow that contains the scope, or nil if no other agent runs next to the scope.
// Scopes inside a child store their events through it.
func childAround(s *scope) *child {
	switch in := s.sink.(type) {
	case *inner:
		return in.via
	case *child:
		if in.inline { // it runs alone, on the workflow's goroutine
			return childAround(in.group.outer)
		}
		return in
	}
	return nil
}
