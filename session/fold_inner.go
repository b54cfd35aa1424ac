package session

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Scopes are the inner scopes of the current turn that are not over, by their names. In each, a run is open or
// waits, or the target of a transfer has not started.
type Scopes map[string]*Scope

// Names returns the names in the order in which the scopes were opened; a scope comes before the scopes inside it.
func (m Scopes) Names() []string {
	if len(m) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Compare(m[a].First, m[b].First) })
}

// Inside returns how many of the scopes the run of a workflow opened for its children, or a call opened for the agent
// of a tool.
func (m Scopes) Inside(opener string) int {
	n := 0
	for range m.openedBy(opener) {
		n++
	}
	return n
}

// Runs reports whether a run of a scope is open or waits.
func (m Scopes) Runs(scope, run string) bool {
	s := m[scope]
	return s != nil && s.Run.ID == run && (s.Run.Open || s.Run.Finish == event.FinishReasonInputRequired)
}

// Opener returns the run of a workflow or the call that opened a scope, and "" for a scope that is none of these.
func (m Scopes) Opener(scope string) string {
	if s := m[scope]; s != nil {
		return s.Opener
	}
	return ""
}

// GoesOn reports whether a scope has work to do: its run is open, or it waits and a decision was made since,
// in it or in a scope inside it, or it waits for something outside whose state must be checked.
func (m Scopes) GoesOn(scope string) bool {
	s := m[scope]
	if s == nil || !s.Run.Waits() || m.elsewhere(s) {
		return s != nil
	}
	goesOn := slices.ContainsFunc(s.Run.Pending, func(c Call) bool { return c.Resolved && c.At > s.Run.Start })
	s.Run.Opens(func(opener string) {
		for name := range m.openedBy(opener) {
			goesOn = goesOn || m.GoesOn(name)
		}
	})
	return goesOn
}

// elsewhere reports whether a scope that waits does so for neither a decision nor something
// inside of it.
func (m Scopes) elsewhere(s *Scope) bool {
	waits := false
	s.Run.Opens(func(opener string) { waits = waits || m.Inside(opener) > 0 })
	return !waits && !slices.ContainsFunc(s.Run.Pending, func(c Call) bool { return c.Relay != "" })
}

// drop forgets the scopes that something has opened, and all inside of them.
func (m Scopes) drop(opener string) {
	for name, s := range m.openedBy(opener) {
		delete(m, name)
		s.Run.Opens(m.drop)
	}
}

// openedBy returns the scopes that something has opened, in no order.
func (m Scopes) openedBy(opener string) iter.Seq2[string, *Scope] {
	return func(yield func(string, *Scope) bool) {
		for name, s := range m {
			if s.Opener == opener && opener != "" && !yield(name, s) {
				return
			}
		}
	}
}
