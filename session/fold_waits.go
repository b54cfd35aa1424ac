package session

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Held reports whether the current turn is paused: the last run of the conversation ended in this turn with the
// reason input_required. The turn then waits for answers ([Fold.Paused]), for something external ([Fold.Waits]), or
// for both.
func (f *Fold) Held() bool {
	run := &f.Conversation.Run
	return run.Waits() && run.TurnID == f.Turn.ID
}

// Stage returns the progress of the last turn: "none" in a session without a turn, "waiting" if the turn is Held,
// "open" if it is Unfinished, and otherwise "over".
func (f *Fold) Stage() string {
	switch s := f.Status(); s {
	case "":
		return "none"
	case StatusOpen, StatusWaiting:
		return string(s)
	}
	return "over"
}

// Active returns the agent that is in charge of the conversation: the target of the last transfer or, before the
// first transfer, the agent that ran first. It returns "" before the first run.
func (f *Fold) Active() string { return cmp.Or(f.Conversation.Active, f.Conversation.Run.Agent) }

// Paused reports whether the turn waits for answers to questions, in the conversation or in inner scopes.
func (f *Fold) Paused() bool { return f.Held() && (len(f.OpenCalls()) > 0 || !f.Waits()) }

// Waits reports whether the turn waits for something external, such as an authorization that a remote agent needs:
// the turn is Held, and the run of the conversation or of an inner scope is paused without a question and without a
// scope inside it.
func (f *Fold) Waits() bool {
	if !f.Held() {
		return false
	}
	if f.Scopes.waitsExternally(&f.Conversation) {
		return true
	}
	for _, s := range f.Scopes {
		if s.Run.Waits() && f.Scopes.waitsExternally(s) {
			return true
		}
	}
	return false
}

// Questions returns the open questions of the conversation and of all inner scopes, in the order of the log.
func (f *Fold) Questions() (asked []*event.Relay) {
	for _, c := range f.OpenCalls() {
		asked = append(asked, c.Asks)
	}
	return asked
}

// SharedQuestions returns the Questions that ask permission for a call that was made at or before a position. In a
// fork at this position these calls belong to the parent session, and clients answer the questions there.
func (f *Fold) SharedQuestions(position int64) (asked []*event.Relay) {
	for _, c := range f.OpenCalls() {
		if c.Made <= position && c.Asks.Kind != event.RelayInput {
			asked = append(asked, c.Asks)
		}
	}
	return asked
}

// OpenCalls returns the calls with the [Fold.Questions], in the same order.
func (f *Fold) OpenCalls() (open []Call) {
	add := func(s *Scope) {
		for _, c := range s.Run.Pending {
			if c.Open() {
				open = append(open, c)
			}
		}
	}
	add(&f.Conversation)
	for _, s := range f.Scopes {
		add(s)
	}
	slices.SortFunc(open, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
	return open
}

// Call returns the pending call with an id and the name of its scope. It returns nil and "" if no such call is
// pending. The result is valid until the next Apply.
func (f *Fold) Call(id string) (c *Call, scope string) {
	if c = f.Conversation.Run.Call(id); c != nil {
		return c, ""
	}
	for name, s := range f.Scopes {
		if c = s.Run.Call(id); c != nil {
			return c, name
		}
	}
	return nil, ""
}

// Opened is a scope that a tool call opened for an agent.
type Opened struct {
	Scope string
	// First is the position of its first event.
	First int64
	Agent string
	Input json.RawMessage `json:",omitempty"`
	// Over reports that the last run of the scope has ended and did not pause. Canceled reports that it ended with the
	// reason canceled.
	Over, Canceled bool
	// Call is the id of the call that opened the scope.
	Call string
}

// Opened returns the scopes that a pending call opened, in the order in which they were opened.
func (f *Fold) Opened(call string) (opened []Opened) {
	for _, o := range f.Over {
		if o.Call == call {
			opened = append(opened, o)
		}
	}
	for _, name := range f.Scopes.inside(call) {
		opened = append(opened, f.Scopes[name].asOpened(name))
	}
	slices.SortFunc(opened, func(a, b Opened) int { return cmp.Compare(a.First, b.First) })
	return opened
}

func (s *Scope) asOpened(name string) Opened {
	return Opened{Scope: name, First: s.First, Agent: s.Root, Input: s.Input, Call: s.Opener}
}
