package session

import (
	"cmp"
	"encoding/json"
	"maps"
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
	if f.elsewhere(&f.Conversation) {
		return true
	}
	for _, s := range f.Scopes {
		if s.Run.Waits() && f.elsewhere(s) {
			return true
		}
	}
	return false
}

// elsewhere reports whether a scope that waits does so for neither a decision nor something
// inside of it.
func (f *Fold) elsewhere(s *Scope) bool {
	waits := false
	s.Run.Opens(func(opener string) { waits = waits || f.inside[opener] > 0 })
	return !waits && !slices.ContainsFunc(s.Run.Pending, func(c Call) bool { return c.Relay != "" })
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
	for _, s := range f.Scopes {
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
	for name, s := range f.Scopes {
		if c = s.Run.Call(id); c != nil {
			return c, name
		}
	}
	return nil, ""
}

// Inner returns the names of the inner scopes that have not ended, in the order in which they were opened; a scope
// comes before the scopes inside it. In each, a run is open or waits, or the target of a transfer has not started.
func (f *Fold) Inner() []string {
	if len(f.Scopes) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(f.Scopes), func(a, b string) int { return cmp.Compare(f.Scopes[a].First, f.Scopes[b].First) })
}

// GoesOn reports whether an inner scope has work to do: its run is open, or it waits and a decision was made since,
// in it or in a scope inside it, or it waits for something outside whose state must be checked.
func (f *Fold) GoesOn(scope string) bool {
	s := f.Scopes[scope]
	if s == nil || !s.Run.Waits() || f.elsewhere(s) {
		return s != nil
	}
	goesOn := slices.ContainsFunc(s.Run.Pending, func(c Call) bool { return c.Resolved && c.At > s.Run.Start })
	s.Run.Opens(func(opener string) {
		if f.inside[opener] == 0 {
			return
		}
		for name, inner := range f.Scopes {
			goesOn = goesOn || inner.Opener == opener && f.GoesOn(name)
		}
	})
	return goesOn
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
	if f.inside[call] > 0 {
		for name, s := range f.Scopes {
			if s.Opener == call {
				opened = append(opened, s.opened(name))
			}
		}
	}
	slices.SortFunc(opened, func(a, b Opened) int { return cmp.Compare(a.First, b.First) })
	return opened
}

func (s *Scope) opened(name string) Opened {
	return Opened{Scope: name, First: s.First, Agent: s.Root, Input: s.Input, Call: s.Opener}
}

// ended forgets an inner scope whose last run has ended. What a call has opened is known until
// the call has its result: if the process ends before, it need not be done again.
func (f *Fold) ended(name string, s *Scope) {
	if event.ParentRun(name) == "" {
		o := s.opened(name)
		o.Over, o.Canceled = true, s.Run.Finish == event.FinishReasonCanceled
		f.Over = append(f.Over, o)
	}
	f.forget(name)
}

// abandon forgets what still waits inside of a run that has ended.
func (f *Fold) abandon(r *Run) {
	if len(f.inside) == 0 {
		return
	}
	for k := -1; k < len(r.Before); k++ {
		opener := r.ID
		if k >= 0 {
			opener = r.Before[k]
		}
		if f.inside[opener] > 0 {
			f.drop(opener)
		}
	}
}

// drop forgets the scopes that something has opened, and all inside of them.
func (f *Fold) drop(opener string) {
	for name, s := range f.Scopes {
		if s.Opener == opener {
			run := s.Run
			f.forget(name)
			run.Opens(func(id string) {
				if f.inside[id] > 0 {
					f.drop(id)
				}
			})
		}
	}
}
