package router

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// past is what a router must know of the log, updated event by event. Its size does not
// grow with the log. The runner stores it as JSON: a change of what it keeps of a log changes the name of its snapshot.
type past struct {
	name string // the router's, which in a graph is that of its node
	of   *Router

	Position int64 // up to which the log was read
	Turn     string
	Active   string   // the target of the last committed transfer
	Before   string   // what it was when the turn began
	Gone     []string // the agents that have returned the conversation to the router in this turn, or have failed
	Asking   []asks   // the latest last
	Asked    bool     // the run has asked for an approval, and so nothing of the user's next message
	Moods    []mood   // of the last turns that the router has measured
	Below    string   // the names of all agents below the router
}

// asks is an agent below the router that waits for the user's answer.
type asks struct {
	Agent string
	Task  bool // its task at a remote agent waits, whatever becomes of its runs
}

type mood struct {
	Turn   string
	Values map[string]float64
}

// Seq is the position up to which the log was read.
func (p *past) Seq() int64 { return p.Position }

// SnapshotName is the name under which the runner stores a past next to the log.
func (p *past) SnapshotName() string { return "router " + p.name }

// UnmarshalJSON reads what was stored. The past of a router with other agents below it is an error.
func (p *past) UnmarshalJSON(data []byte) error {
	type fields past
	read := fields{name: p.name, of: p.of}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	if read.Below != p.of.namesBelow() {
		return errors.New("other agents are below the router")
	}
	*p = past(read)
	return nil
}

type pastKey struct{ router, scope string }

// past returns what the log says, brought up to date.
func (r *Router) past(ctx context.Context, inv *agent.Invocation) (*past, error) {
	s := inv.Session()
	name := inv.Agent().Name()
	p := s.Memo(pastKey{name, inv.Scope()}, func() any { return &past{name: name, of: r, Below: r.namesBelow()} }).(*past)
	for e, err := range s.Events(ctx, p.Position) {
		if err != nil {
			return nil, err
		}
		if p.Position = e.Seq; e.Scope == inv.Scope() {
			p.apply(e, r)
		}
	}
	return p, nil
}

func (p *past) apply(e *event.Event, r *Router) {
	if e.TurnID != p.Turn {
		p.Turn, p.Before, p.Gone = e.TurnID, p.Active, p.Gone[:0]
	}
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		p.Asked = false
		p.answered(e.Agent, false)
	case *event.Relay:
		p.Asked = true
	case *event.HarnessEnd:
		if d.FinishReason == event.FinishReasonInputRequired && !p.Asked {
			p.waits(r, asks{e.Agent, false})
		}
	case *event.RemoteTask:
		p.answered(e.Agent, true)
		if d.TaskID != "" && (d.Status == "input_required" || d.Status == "auth_required") {
			p.waits(r, asks{e.Agent, true})
		}
	case *event.HandoffStatus: // as session.Fold follows it
		if event.HandoffOver(d.Status) && d.TargetAgent != "" && p.Active == human {
			p.Active = d.TargetAgent
		}
	case *event.Transfer:
		if d.Outcome != event.TransferCommitted {
			return
		}
		if p.Active = d.To; d.To == p.name && (d.From == human || r.FindAgent(d.From) != nil) {
			p.Gone = append(p.Gone, d.From)
		}
	case *event.Route:
		switch {
		case d.Failed != nil:
			p.Gone = append(p.Gone, d.From)
		case d.From == p.name && d.Sentiment != nil:
			if n := len(p.Moods); n > 0 && p.Moods[n-1].Turn == e.TurnID {
				p.Moods = p.Moods[:n-1]
			}
			if len(p.Moods) == maxTurns {
				p.Moods = slices.Delete(p.Moods, 0, 1)
			}
			p.Moods = append(p.Moods, mood{e.TurnID, d.Sentiment})
		}
	}
}

func (p *past) answered(name string, task bool) {
	p.Asking = slices.DeleteFunc(p.Asking, func(a asks) bool { return a == asks{name, task} })
}

// waits notes who asks, if it is an agent below the router: there are not many of them.
func (p *past) waits(r *Router, a asks) {
	if a.Agent != p.name && r.FindAgent(a.Agent) != nil {
		p.answered(a.Agent, a.Task)
		p.Asking = append(p.Asking, a)
	}
}

// felt are the sentiments of the turns before one.
func (p *past) felt(turn string) []mood {
	if n := len(p.Moods); n > 0 && p.Moods[n-1].Turn == turn {
		return p.Moods[:n-1]
	}
	return p.Moods
}

// stays returns the agent that keeps the conversation when no rule applies: the agent that was active before, if the
// router is sticky, or else the agent that has asked the user something. It returns nil if neither applies, and after
// an agent has returned the conversation. If another router is on the way to the agent, stays returns that router,
// whose rules come first.
func (r *Router) stays(inv *agent.Invocation, p *past) (to *agent.Node, why string) {
	if len(p.Gone) > 0 {
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
		if to = below(p.Before); to != nil {
			return to, "no rule matches: " + p.Before + " stays in charge"
		}
	}
	for _, a := range slices.Backward(p.Asking) {
		if to = below(a.Agent); to != nil {
			return to, "no rule matches: " + a.Agent + " has asked the user"
		}
	}
	return nil, ""
}

// namesBelow are the names of all agents below the router.
func (r *Router) namesBelow() string { return strings.Join(slices.Sorted(maps.Keys(r.index)), " ") }
