package router

import (
	"context"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// past is what a router must know of the log, updated event by event. Its size does not
// grow with the log.
type past struct {
	name   string // the router's, which in a graph is that of its node
	of     *Router
	seq    int64
	turn   string
	active string   // the target of the last committed transfer
	before string   // what it was when the turn began
	gone   []string // who has given the conversation back to the router in this turn, or has failed
	asking []asks   // the latest last
	asked  bool     // the run has asked for an approval, and so nothing of the user's next message
	moods  []mood   // of the last turns that the router has measured
}

// asks is an agent below the router that waits for the user's words.
type asks struct {
	agent string
	task  bool // its task at a remote agent does, whatever becomes of its runs
}

type mood struct {
	turn   string
	values map[string]float64
}

type pastKey struct{ router, scope string }

// past returns what the log says, brought up to date.
func (r *Router) past(ctx context.Context, inv *agent.Invocation) (*past, error) {
	s := inv.Session()
	name := inv.Agent().Name()
	p := s.Memo(pastKey{name, inv.Scope()}, func() any { return &past{name: name, of: r} }).(*past)
	for e, err := range s.Events(ctx, p.seq) {
		if err != nil {
			return nil, err
		}
		if p.seq = e.Seq; e.Scope == inv.Scope() {
			p.apply(e, r)
		}
	}
	return p, nil
}

func (p *past) apply(e *event.Event, r *Router) {
	if e.TurnID != p.turn {
		p.turn, p.before, p.gone = e.TurnID, p.active, p.gone[:0]
	}
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		p.asked = false
		p.answered(e.Agent, false)
	case *event.Relay:
		p.asked = true
	case *event.HarnessEnd:
		if d.FinishReason == event.FinishReasonInputRequired && !p.asked {
			p.waits(r, asks{e.Agent, false})
		}
	case *event.RemoteTask:
		p.answered(e.Agent, true)
		if d.TaskID != "" && (d.Status == "input_required" || d.Status == "auth_required") {
			p.waits(r, asks{e.Agent, true})
		}
	case *event.HandoffStatus: // as session.Fold follows it
		if event.HandoffOver(d.Status) && d.TargetAgent != "" && p.active == human {
			p.active = d.TargetAgent
		}
	case *event.Transfer:
		if d.Outcome != event.TransferCommitted {
			return
		}
		if p.active = d.To; d.To == p.name && (d.From == human || r.FindAgent(d.From) != nil) {
			p.gone = append(p.gone, d.From)
		}
	case *event.Route:
		switch {
		case d.Failed != nil:
			p.gone = append(p.gone, d.From)
		case d.From == p.name && d.Sentiment != nil:
			if n := len(p.moods); n > 0 && p.moods[n-1].turn == e.TurnID {
				p.moods = p.moods[:n-1]
			}
			if len(p.moods) == maxTurns {
				p.moods = slices.Delete(p.moods, 0, 1)
			}
			p.moods = append(p.moods, mood{e.TurnID, d.Sentiment})
		}
	}
}

func (p *past) answered(name string, task bool) {
	p.asking = slices.DeleteFunc(p.asking, func(a asks) bool { return a == asks{name, task} })
}

// waits notes who asks, if it is an agent below the router: there are not many of them.
func (p *past) waits(r *Router, a asks) {
	if a.agent != p.name && r.FindAgent(a.agent) != nil {
		p.answered(a.agent, a.task)
		p.asking = append(p.asking, a)
	}
}

// felt are the sentiments of the turns before one.
func (p *past) felt(turn string) []mood {
	if n := len(p.moods); n > 0 && p.moods[n-1].turn == turn {
		return p.moods[:n-1]
	}
	return p.moods
}

// stays returns who answers a message for which there is no rule, before the default: the
// agent that was active before, if the router is sticky, or else the one that has asked the user something.
// It is nil if there is none, and after somebody has given the conversation back. Where
// another router is on the way its rules come first.
func (r *Router) stays(inv *agent.Invocation, p *past) (to *agent.Node, why string) {
	if len(p.gone) > 0 {
		return nil, ""
	}
	below := func(name string) *agent.Node {
		n := inv.Tree().Node(name)
		for n != nil && n.Parent != nil && n.Properties.Return == agent.ReturnToParent {
			n = n.Parent
		}
		var way *agent.Node
		for at := n; at != nil; at = at.Parent {
			switch {
			case at == inv.Node():
				return way
			case way == nil || at.Properties.Router:
				way = at
			}
		}
		return nil
	}
	if r.sticky {
		if to = below(p.before); to != nil {
			return to, "no rule matches: " + p.before + " stays in charge"
		}
	}
	for _, a := range slices.Backward(p.asking) {
		if to = below(a.agent); to != nil {
			return to, "no rule matches: " + a.agent + " has asked the user"
		}
	}
	return nil, ""
}
