package integrity

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// counts are the numbers that limits and budgets are compared with.
type counts struct {
	turn  turnCounts
	spent map[spender]*spent
}

// turnCounts are the numbers of one turn, over all scopes.
type turnCounts struct{ answers, calls, transfers int }

type spender struct{ agent, model string }

type spent struct{ session, turn llm.Usage }

// begin starts a turn.
func (n *counts) begin() {
	n.turn = turnCounts{}
	for _, s := range n.spent {
		s.turn = llm.Usage{}
	}
}

func (n *counts) add(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.Usage:
		n.turn.answers++
		n.spend(e.Agent, d)
	case *event.Discard:
		if d.Code != event.CodeTripwire { // the usage event counts an answer that a tripwire discarded
			n.turn.answers++
		}
		if d.Usage != nil {
			n.spend(e.Agent, d.Usage)
		}
	case *event.ToolCall:
		n.turn.calls++
	case *event.Transfer:
		if d.Outcome == event.TransferCommitted && !d.Routed() {
			n.turn.transfers++
		}
	}
}

func (n *counts) spend(name string, u *event.Usage) {
	who := spender{name, u.Model}
	if n.spent == nil {
		n.spent = make(map[spender]*spent)
	}
	if n.spent[who] == nil {
		n.spent[who] = &spent{}
	}
	s := n.spent[who]
	s.session, s.turn = s.session.Add(u.Counted()), s.turn.Add(u.Counted())
}

// compare compares the counts of a fold with these.
func (n *counts) compare(f *session.Fold, wrong func(string, ...any)) {
	has := turnCounts{f.Turn.ModelCalls, f.Turn.ToolCalls, f.Turn.Transfers}
	if has != n.turn {
		wrong("counts the turn's answers, calls and transfers as %v instead of %v", has, n.turn)
	}
	if len(f.Spent) != len(n.spent) {
		wrong("has the usage of %d agents and models instead of %d", len(f.Spent), len(n.spent))
		return
	}
	for _, has := range f.Spent {
		if s := n.spent[spender{has.Agent, has.Model}]; s == nil || s.session != has.Session.Usage || s.turn != has.Turn.Usage {
			wrong("has a wrong usage for the agent %q and the model %q", has.Agent, has.Model)
		}
	}
}
