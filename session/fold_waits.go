package session

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Held reports whether the last run of the conversation ended in this turn to wait for a decision or for something
// outside: the turn is [Fold.Paused], [Fold.Waits], or both.
func (f *Fold) Held() bool {
	run := &f.Conversation.Run
	return run.Waits() && run.TurnID == f.Turn.ID
}

// Stage returns how far the last turn is: "none" in a session without a turn, "waiting" if it is Held, "open" if it
// is Unfinished, and otherwise "over".
func (f *Fold) Stage() string {
	switch s := f.Status(); s {
	case "":
		return "none"
	case StatusOpen, StatusWaiting:
		return string(s)
	}
	return "over"
}

// Active returns the agent in charge of the conversation: the target of the last transfer or, before the first
// transfer, the agent that ran first.
func (f *Fold) Active() string { return cmp.Or(f.Conversation.Active, f.Conversation.Run.Agent) }

// Paused reports whether the turn waits for decisions, in the conversation or in inner scopes.
func (f *Fold) Paused() bool { return f.Held() && (len(f.questions()) > 0 || !f.Waits()) }

// Waits reports whether the turn waits for something outside, such as an authorization that a remote agent asks for:
// the last run of the conversation ended in this turn with the reason input_required, and neither it nor an inner
// scope asked for a decision.
func (f *Fold) Waits() bool {
	if !f.Held() {
		return false
	}
	if f.Scopes.elsewhere(&f.Conversation) {
		return true
	}
	for _, s := range f.Scopes.open {
		if s.Run.Waits() && f.Scopes.elsewhere(s) {
			return true
		}
	}
	return false
}

// Questions returns the open questions of the conversation and of all its inner scopes, in the
// order of the log.
func (f *Fold) Questions() (asked []*event.Relay) {
	for _, c := range f.questions() {
		asked = append(asked, c.Asks)
	}
	return asked
}

// SharedQuestions returns the Questions that ask permission for a call made at or before a position.
// In a fork taken at this position, the other session made these calls, and they are decided there.
func (f *Fold) SharedQuestions(position int64) (asked []*event.Relay) {
	for _, c := range f.questions() {
		if c.Made <= position && c.Asks.Kind != event.RelayInput {
			asked = append(asked, c.Asks)
		}
	}
	return asked
}

func (f *Fold) questions() (open []*Call) {
	add := func(s *Scope) {
		for i := range s.Run.Pending {
			if c := &s.Run.Pending[i]; c.Open() {
				open = append(open, c)
			}
		}
	}
	add(&f.Conversation)
	for _, s := range f.Scopes.open {
		add(s)
	}
	slices.SortFunc(open, func(a, b *Call) int { return cmp.Compare(a.At, b.At) })
	return open
}

// Call returns a call that has no result, and the scope in which it was made; nil if there
// is none of this id. It is valid until the next Apply.
func (f *Fold) Call(id string) (c *Call, scope string) {
	if c = f.Conversation.Run.Call(id); c != nil {
		return c, ""
	}
	for name, s := range f.Scopes.open {
		if c = s.Run.Call(id); c != nil {
			return c, name
		}
	}
	return nil, ""
}

// Opened is a scope that a tool call has opened for an agent.
type Opened struct {
	Scope string
	// First is the position of its first event.
	First int64
	Agent string
	Input json.RawMessage `json:",omitempty"`
	// Over says that its last run has ended, and not to wait for something; Canceled that it was cut
	// off for good.
	Over, Canceled bool
	// Call is the call that has opened it.
	Call string
}

// Opened returns the scopes that a call without a result opened, in order.
func (f *Fold) Opened(call string) (opened []Opened) {
	for _, o := range f.Over {
		if o.Call == call {
			opened = append(opened, o)
		}
	}
	for _, name := range f.Scopes.inside[call] {
		opened = append(opened, f.Scopes.open[name].opened(name))
	}
	slices.SortFunc(opened, func(a, b Opened) int { return cmp.Compare(a.First, b.First) })
	return opened
}

func (s *Scope) opened(name string) Opened {
	return Opened{Scope: name, First: s.First, Agent: s.Root, Input: s.Input, Call: s.Opener}
}
