package integrity

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// counts is what limits and budgets are held against.
type counts struct {
	turn  turnCounts
	spent map[spender]*spent
}

// turnCounts are those of one turn, over all scopes.
type turnCounts struct{ answers, calls, transfers int }

type spender struct{ agent, model string }

type spent struct{ session, turn llm.Usage }

// begin begins a turn.
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
		if d.Code != event.CodeTripwire { // such an answer has a usage as well
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

// compare holds the counts of a fold against these.
func (n *counts) compare(f *session.Fold, wrong func(string, ...any)) {
	has := turnCounts{f.Turn.ModelCalls, f.Turn.ToolCalls, f.Turn.Transfers}
	if has != n.turn {
		wrong("has counted the turn's answers, calls and transfers as %v, and not %v", has, n.turn)
	}
	if len(f.Spent) != len(n.spent) {
		wrong("knows of %d that have used something, and not %d", len(f.Spent), len(n.spent))
		return
	}
	for _, has := range f.Spent {
		if s := n.spent[spender{has.Agent, has.Model}]; s == nil || s.session != has.Session.Usage || s.turn != has.Turn.Usage {
			wrong("is wrong about what %q has used of %q", has.Agent, has.Model)
		}
	}
}
