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

// past is the part of the log that a router needs, updated event by event. Its size does not grow with the log. The
// runner stores it as JSON. A change of its meaning must also change the result of SnapshotName.
type past struct {
	name string // of the router; in a graph, the name of its node
	of   *Router

	Position int64    // of the last event that was read
	Turn     string   // the id of the last turn
	Active   string   // the target of the last committed transfer
	Before   string   // Active at the beginning of the turn
	Gone     []string // the agents that have returned the conversation to the router in this turn, or have failed
	Asking   []asking // the latest last
	Asked    bool     // the current run has asked for an approval; the user's next message does not answer that
	Moods    []mood   // of the last turns in which the router measured the sentiment
	Below    string   // the names of all agents below the router
}

// asking is an agent below the router that waits for the user's answer.
type asking struct {
	Agent string
	Task  bool // the agent's remote task waits; the start of a new run does not change that
}

// mood is the sentiment of a turn.
type mood struct {
	Turn   string
	Values map[string]float64 // by label
}

// Seq returns the position of the last event that was read.
func (p *past) Seq() int64 { return p.Position }

// SnapshotName returns the name under which the runner stores the past in a snapshot.
func (p *past) SnapshotName() string { return "router " + p.name }

// UnmarshalJSON decodes a stored past. It returns an error if the router had other agents below it then.
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

// past returns the past of the router in a session, up to the end of the log.
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

// apply updates the past with the next event of the log.
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
			p.addAsking(r, asking{e.Agent, false})
		}
	case *event.RemoteTask:
		p.answered(e.Agent, true)
		if d.TaskID != "" && (d.Status == "input_required" || d.Status == "auth_required") {
			p.addAsking(r, asking{e.Agent, true})
		}
	case *event.HandoffStatus: // the same rule as in session.Fold
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

// answered removes an agent from those that wait for the user.
func (p *past) answered(name string, task bool) {
	p.Asking = slices.DeleteFunc(p.Asking, func(a asking) bool { return a == asking{name, task} })
}

// addAsking adds an agent that waits for the user, if it is below the router.
func (p *past) addAsking(r *Router, a asking) {
	if a.Agent != p.name && r.FindAgent(a.Agent) != nil {
		p.answered(a.Agent, a.Task)
		p.Asking = append(p.Asking, a)
	}
}

// moodsBefore returns the sentiments of the turns before the given turn.
func (p *past) moodsBefore(turn string) []mood {
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
		var first *agent.Node // the first router on the way, or else the agent
		for at := n; at != nil; at = at.Parent {
			switch {
			case at == inv.Node():
				return first
			case first == nil || at.Properties.Router:
				first = at
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

// namesBelow returns the names of all agents below the router.
func (r *Router) namesBelow() string { return strings.Join(slices.Sorted(maps.Keys(r.index)), " ") }
