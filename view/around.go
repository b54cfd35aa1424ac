package view

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Around shows the agents of an edge, which run in a scope of their own, the conversation in which that scope was
// opened. The messages up to then, filtered by the policy, come before their input. All agents of that conversation
// are other agents to them. Their own redaction applies to it as well. If the surrounding conversation is an inner
// scope too, they also see what the agents of that scope see of the conversation around it.
func Around(p Policy) agent.EdgeOption { return around(p) }

type around Policy

func (p around) ApplyEdge(e *agent.Edge) { e.Around = Policy(p) }

// Begin prepares an empty view for the events of an invocation's session. A view of the user's conversation starts
// with the first turn that it needs, not at the start of the log. A view of an inner scope gets the conversation
// around it, if the agents of its tree may see it. Call Begin before each CatchUp. It does nothing if the view is not
// empty.
func (v *View) Begin(ctx context.Context, inv *agent.Invocation) error {
	switch {
	case v.seq > 0:
		return nil
	case inv.Around() != nil:
		return v.surround(ctx, v.node, inv.Around())
	}
	v.BeginAt(inv.Session().Turns(), 0)
	return nil
}

// surround shows the conversation around the scope of the view, whose agents are in the tree of n.
func (v *View) surround(ctx context.Context, n *agent.Node, a *agent.Around) error {
	root := outermost(n)
	p, ok := root.Edge.Around.(Policy)
	if !ok {
		return nil
	}
	redact := p.redact
	p.redact = v.policy.redact
	p = p.Redact(redact)
	create := func() *View { return newView(outermost(a.Tree.Root()), p, a.Scope) }
	if a.Scope != "" { // it is short, and goes with its scope
		h := create()
		if err := h.surround(ctx, a.Tree.Root(), a.Around); err != nil {
			return err
		}
		return v.follow(ctx, h, a)
	}
	kept := a.Session.Memo(aroundKey{root, v.node}, func() any { return &remembered{view: create()} }).(*remembered)
	kept.mu.Lock()
	defer kept.unlock()
	h := kept.view
	h.BeginAt(a.Session.Turns(), 0)
	if !h.shows(a.UpTo) { // several scopes are open, and this one was opened before the last one
		h = create()
	}
	return v.follow(ctx, h, a)
}

// shows reports whether the view is at a position or before it, or shows the same as there: of the calls of one answer,
// each of which opens a scope, those without a result are not shown.
func (v *View) shows(upTo int64) bool {
	seq := v.seq
	for i := len(v.open.calls) - 1; i >= 0 && v.open.calls[i].Seq == seq && !v.open.calls[i].finished; i-- {
		seq--
	}
	return seq <= upTo
}

// aroundKey is the key under which a session keeps the view of the conversation for later scopes.
type aroundKey struct{ root, agent *agent.Node }

// remembered is a view of the conversation that tools which run in parallel share.
type remembered struct {
	seq atomic.Int64

	mu   sync.Mutex // held while the session is read
	view *View
}

func (r *remembered) unlock() {
	r.seq.Store(r.view.seq)
	r.mu.Unlock()
}

// Seq and CatchUp let the session update the view between turns.
func (r *remembered) Seq() int64 { return r.seq.Load() }

func (r *remembered) CatchUp(events iter.Seq2[*event.Event, error]) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		if d, ok := e.Data.(*event.HarnessEnd); ok && e.Scope == "" && d.FinishReason == event.FinishReasonInputRequired {
			return nil // a scope that waits continues with what it was opened with
		}
	}
	r.mu.Lock()
	defer r.unlock()
	return r.view.CatchUp(events)
}

// follow brings the view of the conversation around up to the opening of the scope, and copies it to the front.
func (v *View) follow(ctx context.Context, h *View, a *agent.Around) error {
	for e, err := range a.Session.Events(ctx, h.seq) {
		if err != nil {
			return err
		}
		if e.Seq > a.UpTo {
			break
		}
		h.Apply(e)
	}
	v.outside = append(h.outside[:len(h.outside):len(h.outside)], h.node)
	for i, m := range h.shown.msgs {
		v.shown.add(m, h.shown.marks[i].seq, h.shown.marks[i].turn)
	}
	if h.open.agent != "" { // its calls are under way: one of them has opened the scope
		last := progress{page: page{node: h.node, policy: h.policy, outside: h.outside}, open: h.open}
		last.open.calls = slices.Clone(h.open.calls)
		for i := range last.open.calls {
			last.open.calls[i].hidden = last.open.calls[i].hidden || !last.open.calls[i].finished
		}
		last.flush()
		for i, m := range last.shown.msgs {
			v.shown.add(m, min(last.shown.marks[i].seq, a.UpTo), false)
		}
	}
	if n := v.policy.turns; n > 0 && v.shown.turns > 2*n {
		v.shown.trim(n)
	}
	v.said.last = slices.Clone(h.said.last)
	v.seq = a.UpTo
	return nil
}
