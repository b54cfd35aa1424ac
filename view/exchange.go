package view

import (
	"slices"
	"strings"
)

// Exchange is a message of the user, and the last agent that answered in the
// turn, of those whose texts the view shows; "" if none did.
type Exchange struct{ Said, By string }

// exchanges are the user's last messages, and the agents that answered them. Their number is limited.
type exchanges struct{ last []Exchange }

const keptExchanges = 4

func (x *exchanges) user(text string, p Policy) {
	if n := len(x.last); n == keptExchanges || n > 0 && n == p.turns {
		x.last = slices.Delete(x.last, 0, 1)
	}
	x.last = append(x.last, Exchange{Said: strings.TrimSpace(text)})
}

func (x *exchanges) by(agent string) {
	if n := len(x.last); n > 0 {
		x.last[n-1].By = agent
	}
}

// Exchanges returns the user's last message, and up to three before it with the agents
// that answered them. The slice is shared: it holds until the next event is applied.
func (v *View) Exchanges() (said string, before []Exchange) {
	n := len(v.said.last)
	if n == 0 {
		return "", nil
	}
	return v.said.last[n-1].Said, v.said.last[:n-1]
}
