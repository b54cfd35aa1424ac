package runner

import (
	"errors"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// smallMessage is the number of tokens up to which nobody counts a message: windows are far larger, and the budgets
// check each request anyway.
const smallMessage = 128

// fits refuses a message that is too large for the window of the active agent's model, or for what a budget has left,
// before it is stored: all later requests would hold it, and none would fit. If a request would not fit without
// the message either, the turn ends with that.
func (t *turn) fits(msg *llm.Message) error {
	r := t.r
	n, _ := r.active(&t.w.fold)
	text := llm.UserText(msg.PlainText()) // what media takes is a guess
	size := llm.CountMessage(&text, r.tokens)
	windowed, _ := agent.As[interface{ Window() int }](n.Agent)
	budgeted := r.budgeted.tokens || r.budgeted.cost
	if size <= smallMessage || windowed == nil && !budgeted {
		return nil
	}
	without := amount{agent: n.Agent.Name()}
	var next amount
	frame := 0 // what each request holds besides messages
	err := r.imagine(t.ctx, t.w, n.Agent.Name(), func(_ *lane, _ *agent.Invocation, model llm.Model, req *llm.Request) (err error) {
		with, bare := *req, *req
		bare.Messages = nil
		frame = llm.CountRequest(&bare, r.tokens)
		if windowed != nil && windowed.Window() > 0 {
			req = &bare // the rest can be left out
		}
		with.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], text)
		if without, err = r.expect(n.Agent.Name(), model, req); err == nil {
			next, err = r.expect(n.Agent.Name(), model, &with)
		}
		return err
	})
	if err != nil {
		return nil // the turn ends with it
	}
	switch {
	case next.tokens > 0:
	case !n.Properties.Router: // it asks no model, or others with requests of its own
		return nil
	default: // which model it gives the message to is not known yet
		next = amount{agent: n.Agent.Name(), tokens: int64(size)}
	}
	if windowed != nil {
		if window := windowed.Window(); window > 0 && frame < window && frame+size > window {
			return &agent.MessageSizeError{Tokens: size, Of: "the window of the model of " + n.Agent.Name(), Unit: "tokens", Needs: float64(frame + size), Left: float64(window)}
		}
	}
	l, newTurn := &lane{t: t}, func(session.Spent) session.Use { return session.Use{} }
	var spent *agent.BudgetError
	if errors.As(l.withinBudgets(next, newTurn), &spent) && l.withinBudgets(without, newTurn) == nil {
		return &agent.MessageSizeError{Tokens: size, Of: "the budget of " + spent.Of, Unit: spent.Unit, Needs: spent.Needs, Left: spent.Budget - spent.Used}
	}
	return nil
}
