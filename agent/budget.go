package agent

import "time"

// Budget limits what may be spent. In each field 0 is no limit.
type Budget struct {
	// Tokens limits input and output tokens together, including discarded answers.
	Tokens int64
	// Cost limits the price of the answers, in the currency of the price table.
	Cost float64
	// Time limits how long agents run. Waiting for an approval does not count.
	Time time.Duration
}

// Stricter returns the budget with the smaller limit of each unit.
func (b Budget) Stricter(o Budget) Budget {
	return Budget{stricter(b.Tokens, o.Tokens), stricter(b.Cost, o.Cost), stricter(b.Time, o.Time)}
}

func stricter[N int64 | float64 | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Budgets are the limits that an agent has wherever it runs. A runner may set limits of its own; the stricter limit
// applies.
type Budgets struct {
	// Own limits what the agent itself uses in a session.
	Own Budget
	// Turn and Session limit what all agents use in a turn or in a session. They apply only if the agent is the root
	// of the tree that runs.
	Turn, Session Budget
}
