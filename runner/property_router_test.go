package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"iter"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

var errNobody = errors.New("nobody is left to route to")

// router makes a router: what it chooses depends on what the user has said, or on who
// was active before if it is sticky.
func (w *world) router(name string, sticky bool, kids []agent.Agent) agent.Agent {
	w.traits[name] = traits{}
	a, err := agent.New(name, "A router.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			to, err := w.choose(ctx, inv, sticky)
			if err != nil {
				yield(nil, err)
				return
			}
			w.happen("a router that chooses")
			path, kind := to.GraphPath(), event.TransferTypeBotToBot
			if to.Virtual() {
				path, kind = append(inv.Node().GraphPath(), to.Agent.Name()), event.TransferTypeBotToHuman
			}
			decision, _ := json.Marshal(to.Agent.Name())
			if yield(&event.Event{More: true, Data: &event.Route{From: name, To: to.Agent.Name(), Reason: "by the words", GraphPath: path}}, nil) {
				yield(&event.Event{Data: &event.Transfer{To: to.Agent.Name(), RouteDecision: decision, GraphPath: path, TransferType: kind}}, nil)
			}
		}
	}, agent.WithSubAgents(kids...), func(p *agent.Properties) { p.Router = true })
	require.NoError(w.t, err)
	return a
}

// choose returns who is to answer: nobody who has handed back in this turn.
func (w *world) choose(ctx context.Context, inv *agent.Invocation, sticky bool) (*agent.Node, error) {
	var below []*agent.Node
	var walk func(*agent.Node)
	walk = func(n *agent.Node) {
		for _, kid := range n.Children() {
			below = append(below, kid)
			walk(kid)
		}
	}
	if walk(inv.Node()); inv.Node().Human() != nil {
		below = append(below, inv.Node().Human())
	}
	active, back := "", make(map[string]bool)
	for e, err := range inv.Session().Events(ctx, 0) {
		if err != nil {
			return nil, err
		}
		d, ok := e.Data.(*event.Transfer)
		if !ok || e.Scope != "" || d.Outcome != event.TransferCommitted {
			continue
		}
		if active = d.To; e.TurnID == inv.TurnID() {
			back[d.From] = true // also who gave it to another
		}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(inv.Message().PlainText() + inv.TurnID()))
	first := int(h.Sum32() % uint32(len(below)))
	for i, n := range below {
		if sticky && n.Agent.Name() == active && !n.Virtual() {
			first = i
			w.happen("a router that sticks to who was active")
		}
	}
	for i := range below {
		n := below[(first+i)%len(below)]
		if name := n.Agent.Name(); back[name] || inv.Node().InputFor(n) != nil || inv.Runtime().CheckTransfer(ctx, inv, name) != nil {
			continue
		}
		return n, nil
	}
	return nil, errNobody
}

// endsTurn are the codes of errors after which nobody goes on.
var endsTurn = []string{"limit", "budget", "transfer_limit", "tripwire", "unknown_usage", "canceled"}

// checkRouted holds the i-th event of the log against the rules of decisions: each is
// followed by its transfer, only routers transfer in a router's name, and an agent goes on
// for one that has failed if its edge says so, and only then.
func (w *world) checkRouted(i int) {
	e, s := w.log[i], &w.story
	tree := w.processes[0].Tree()
	w.checkRuled(i)
	switch d := e.Data.(type) {
	case *event.Route:
		if i+1 == len(w.log) {
			w.t.Fatalf("seq %d: a decision without its transfer", e.Seq)
		}
		to, ok := w.log[i+1].Data.(*event.Transfer)
		if !ok || to.To != d.To || to.From != d.From || to.Outcome != event.TransferCommitted {
			w.t.Fatalf("seq %d: the decision for %s is not followed by its transfer", e.Seq, d.To)
		}
		if e.Scope != "" {
			return
		}
		from := tree.Node(d.From)
		if d.Failed == nil {
			require.True(w.t, from.Properties.Router, "seq %d: %s decides, and is no router", e.Seq, d.From)
			return
		}
		w.happened["an agent that goes on for one that failed"] = true
		require.NotContains(w.t, endsTurn, d.Failed.Code, "seq %d: somebody goes on after that", e.Seq)
		next := from.OnError()
		for next != nil && w.away[next.Agent.Name()] {
			w.happened["an agent that would go on and cannot start"] = true
			next = next.OnError()
		}
		require.True(w.t, next != nil && next.Agent.Name() == d.To, "seq %d: %s goes on for %s", e.Seq, d.To, d.From)
		if w.stoppedAt > 0 && e.Seq > w.stoppedAt {
			w.t.Fatalf("seq %d: %s goes on for %s after the turn was stopped at %d", e.Seq, d.To, d.From, w.stoppedAt)
		}
	case *event.Transfer:
		if d.Routed() && e.Scope == "" && d.Outcome == event.TransferCommitted && !tree.Node(e.Agent).Properties.Router {
			w.t.Fatalf("seq %d: %s hands over as a router does", e.Seq, e.Agent)
		}
	case *event.Failure:
		if e.Scope != "" || tree.Node(e.Agent) == nil {
			return
		}
		to := tree.Node(e.Agent).OnError()
		for to != nil && w.away[to.Agent.Name()] {
			to = to.OnError()
		}
		for _, code := range endsTurn {
			if d.Code == code {
				return
			}
		}
		if to == nil || w.stopped || w.limits.Transfers > 0 && s.transfers >= w.limits.Transfers || s.repeats(e, to.Agent.Name()) {
			return
		}
		w.t.Fatalf("seq %d: %s does not go on for %s: %s", e.Seq, to.Agent.Name(), e.Agent, d.Message)
	}
}
