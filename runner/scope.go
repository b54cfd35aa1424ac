package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Run implements agent.Runtime: it runs an agent in a scope of the same session, and yields
// the scope's events, stored already. It may be called from the goroutine of a tool; the
// conversation's lane delivers the events.
func (l *lane) Run(ctx context.Context, a agent.Agent, cause string, input llm.Content) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if strings.TrimSpace(input.PlainText()) == "" {
			yield(nil, fmt.Errorf("the input of the agent %s has no words: %w", a.Name(), agent.ErrBadInput))
			return
		}
		tree, err := l.t.r.innerTree(a)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		inner := &lane{t: l.t, ctx: ctx, cancel: cancel, tree: tree, around: l.around, outer: l, host: l.current.Agent}
		out := &toolRun{lane: inner, via: l.via(cause), yield: yield}
		inner.outlet = out
		events, over, err := inner.enter(l, out, cause, inputJSON(input))
		if over || err != nil {
			if err != nil && !inner.stopped {
				yield(nil, err)
			}
			return
		}
		inner.session = &scopeSession{turn: l.t, after: out.seen}
		defer inner.close()
		if err := inner.append(events); err != nil {
			yield(nil, err)
			return
		}
		err = inner.run()
		if run := l.t.runOf(inner.scope); err == nil && run.Waits() {
			err = fmt.Errorf("%s: %w", run.Agent, agent.ErrWaits)
		}
		if err != nil && !inner.stopped {
			yield(nil, err)
		}
	}
}

// enter finds the scope in which an agent runs for a call, and makes the events by which a
// run opens there. If the call was begun before this turn was taken up, that is the scope that
// it has opened for the same agent with the same input: of several, each is entered once. One
// that is over yields what is recorded, if it was not canceled, and one for which nobody has done anything waits as
// before: the error is agent.ErrWaits.
func (l *lane) enter(around *lane, out *toolRun, cause string, input json.RawMessage) (events []*event.Event, over bool, err error) {
	t := l.t
	run, turn := around.state()
	t.mu.Lock()
	defer t.mu.Unlock()
	if run.Call(cause) != nil {
		for _, o := range t.w.fold.Opened(cause) {
			if o.First > t.lease.Head.Seq || t.entered[o.Scope] || o.Agent != l.tree.Root().Agent.Name() || !bytes.Equal(event.CompactJSON(o.Input), event.CompactJSON(input)) {
				continue
			}
			if t.entered == nil {
				t.entered = make(map[string]bool)
			}
			t.entered[o.Scope] = true
			l.scope, out.seen = o.Scope, o.First-1
			if o.Canceled { // and what its tools did then must not be done again
				return nil, false, fmt.Errorf("the agent %s was %s", o.Agent, interrupted)
			}
			if o.Over {
				t.mu.Unlock()
				defer t.mu.Lock()
				return nil, true, out.recorded()
			}
			var goesOn bool
			if events, l.again, goesOn = t.goOn(o.Scope); !goesOn {
				err = agent.ErrWaits
			}
			return events, false, err
		}
	}
	l.scope, out.seen = t.newID(), t.w.fold.Seq
	return []*event.Event{t.start(l.tree.Root(), turn.ID, cause, l.scope, input)}, false, nil
}

// close ends a run that is still open because its tool call ended first. When
// the whole turn was cancelled nothing is stored.
func (l *lane) close() {
	l.t.mu.Lock()
	var events []*event.Event
	if run := l.t.w.fold.Scope(l.scope).Run; run.Open {
		l.joined = nil // never stored
		events = l.t.closeScope(events, l.scope, interrupted)
	}
	l.t.mu.Unlock()
	err := l.outlet.store(l.t.ctx, events)
	if err != nil && l.outlet.within() != nil { // the workflow does not listen any more
		err = l.t.append(l.t.ctx, events)
	}
	if err != nil {
		l.t.r.logger.Warn("an inner run stays open", "scope", l.scope, "error", err)
	}
}

// maxInner bounds the trees that a runner keeps of agents in scopes of their own.
// Agents that a program makes anew for every call would fill it.
const maxInner = 256

// innerTree returns the validated tree of an agent that runs in a scope of its
// own. It is kept, because agents keep things beside their nodes.
func (r *Runner) innerTree(a agent.Agent) (*agent.Tree, error) {
	r.innerMu.Lock()
	defer r.innerMu.Unlock()
	if !reflect.ValueOf(a).Comparable() {
		return agent.NewTree(a) // which says what is wrong with it
	}
	if tree := r.inner[a]; tree != nil {
		return tree, nil
	}
	tree, err := agent.NewTree(a)
	if err != nil {
		return nil, err
	}
	if r.inner == nil || len(r.inner) >= maxInner {
		r.inner = make(map[agent.Agent]*agent.Tree)
	}
	r.inner[a] = tree
	return tree, nil
}

// scopeSession is the session as agents of an inner scope get it: it begins where
// the scope does, and what they keep beside it goes with the scope. So a call of
// an agent costs the same in a long conversation, and leaves nothing behind.
type scopeSession struct {
	*turn
	after int64
	memos memos
}

// Events implements agent.Session.
func (s *scopeSession) Events(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return s.turn.Events(ctx, max(after, s.after))
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
