package session

import (
	"cmp"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Scopes contains the inner scopes of the current turn that have not ended, by name. In each of them a run is open or
// paused, or the target of a transfer has not started. The zero value contains none.
type Scopes map[string]*Scope

// Names returns the names in the order in which the scopes were opened. A scope comes before the scopes inside it.
func (m Scopes) Names() []string {
	if len(m) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Compare(m[a].First, m[b].First) })
}

// Inside returns the number of scopes that an opener has opened: the run of a workflow for its children, or a call
// for the agent of a tool.
func (m Scopes) Inside(opener string) int { return len(m.inside(opener)) }

// inside returns the names of the scopes that an opener has opened, in no particular order.
func (m Scopes) inside(opener string) (names []string) {
	for name, s := range m {
		if opener != "" && s.Opener == opener {
			names = append(names, name)
		}
	}
	return names
}

// Runs reports whether run is the last run of the scope and is open or paused.
func (m Scopes) Runs(scope, run string) bool {
	s := m[scope]
	return s != nil && s.Run.ID == run && (s.Run.Open || s.Run.Finish == event.FinishReasonInputRequired)
}

// Opener returns the id of the run or call that opened a scope. It returns "" if the scope is not open.
func (m Scopes) Opener(scope string) string {
	if s := m[scope]; s != nil {
		return s.Opener
	}
	return ""
}

// CanContinue reports whether a runner can continue a scope now: its run is open, the target of a transfer has to start, a
// question in it or in a scope inside it was answered after its run started, or it waits for something external,
// whose state must be checked.
func (m Scopes) CanContinue(scope string) bool {
	s := m[scope]
	if s == nil || !s.Run.Waits() || m.waitsExternally(s) {
		return s != nil
	}
	goesOn := slices.ContainsFunc(s.Run.Pending, func(c Call) bool { return c.Resolved && c.At > s.Run.Start })
	s.Run.Opens(func(opener string) {
		goesOn = goesOn || slices.ContainsFunc(m.inside(opener), m.CanContinue)
	})
	return goesOn
}

// waitsExternally reports whether a paused scope waits for something other than an answer or a scope inside it.
func (m Scopes) waitsExternally(s *Scope) bool {
	waits := false
	s.Run.Opens(func(opener string) { waits = waits || m.Inside(opener) > 0 })
	return !waits && !slices.ContainsFunc(s.Run.Pending, func(c Call) bool { return c.Relay != "" })
}

// add returns a scope for a change, and adds it if it is missing.
func (m *Scopes) add(name string) *Scope {
	s := (*m)[name]
	if s == nil {
		if *m == nil {
			*m = make(Scopes)
		}
		s = &Scope{}
		(*m)[name] = s
	}
	return s
}

// removeInside removes the scopes that a run or call opened, and all scopes inside these.
func (m Scopes) removeInside(opener string) {
	for _, name := range m.inside(opener) {
		if s := m[name]; s != nil { // nil: a damaged log has two openers with one id
			delete(m, name)
			s.Run.Opens(m.removeInside)
		}
	}
}

// clone returns an independent copy.
func (m Scopes) clone() (c Scopes) {
	for name, s := range m {
		*c.add(name) = s.clone()
	}
	return c
}
