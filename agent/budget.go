package agent

import "time"

// Budget bounds what may be spent. Zero sets no bound.
type Budget struct {
	// Tokens bounds input and output tokens together, discarded answers included.
	Tokens int64
	// Cost bounds what the answers cost, in the currency of the price table.
	Cost float64
	// Time bounds how long agents run. Waiting for an approval is not counted.
	Time time.Duration
}

// Stricter returns the budget that keeps within both: of each unit the smaller bound.
func (b Budget) Stricter(o Budget) Budget {
	return Budget{stricter(b.Tokens, o.Tokens), stricter(b.Cost, o.Cost), stricter(b.Time, o.Time)}
}

func stricter[N int64 | float64 | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Budgets are the bounds that an agent has wherever it is run. A runner keeps them together
// with its own; where both bound something, the stricter bound holds.
type Budgets struct {
	// Own bounds what the agent itself uses in a session.
	Own Budget
	// Turn and Session bound what all agents of a turn or a session use. They have an effect only
	// if the agent is the root of the tree that is run.
	Turn, Session Budget
}
