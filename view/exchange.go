package view

import (
	"slices"
	"strings"
)

// Exchange is a message of the user and the agent that answered it.
type Exchange struct {
	// Said is the text of the message.
	Said string
	// By is the last agent in the turn whose texts the view shows, "" without one.
	By string
}

// exchanges are the last exchanges, at most keptExchanges.
type exchanges struct{ last []Exchange }

const keptExchanges = 4

// user adds a message of the user. It keeps no more exchanges than the policy shows turns.
func (x *exchanges) user(text string, p Policy) {
	if n := len(x.last); n == keptExchanges || n > 0 && n == p.turns {
		x.last = slices.Delete(x.last, 0, 1)
	}
	x.last = append(x.last, Exchange{Said: strings.TrimSpace(text)})
}

// by sets the agent of the last exchange.
func (x *exchanges) by(agent string) {
	if n := len(x.last); n > 0 {
		x.last[n-1].By = agent
	}
}

// Exchanges returns the user's last message, "" without one, and up to three exchanges before it. The slice is shared:
// it is valid until the next event is applied.
func (v *View) Exchanges() (said string, before []Exchange) {
	n := len(v.said.last)
	if n == 0 {
		return "", nil
	}
	return v.said.last[n-1].Said, v.said.last[:n-1]
}
