package session

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Scopes contains the inner scopes of the current turn that have not ended, by name. In each of them a run is open or
// paused, or the target of a transfer has not started. The zero value contains none.
type Scopes struct {
	open   map[string]*Scope
	inside map[string][]string // by opener (a run or a call): the names of its scopes in the order in which they were opened
}

// Len returns the number of scopes.
func (m Scopes) Len() int { return len(m.open) }

// Names returns the names in the order in which the scopes were opened. A scope comes before the scopes inside it.
func (m Scopes) Names() []string {
	if len(m.open) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(m.open), func(a, b string) int { return cmp.Compare(m.open[a].First, m.open[b].First) })
}

// Inside returns the number of scopes that an opener has opened: the run of a workflow for its children, or a call
// for the agent of a tool.
func (m Scopes) Inside(opener string) int { return len(m.inside[opener]) }

// Runs reports whether run is the last run of the scope and is open or paused.
func (m Scopes) Runs(scope, run string) bool {
	s := m.open[scope]
	return s != nil && s.Run.ID == run && (s.Run.Open || s.Run.Finish == event.FinishReasonInputRequired)
}

// Opener returns the id of the run or call that opened a scope. It returns "" if the scope is not open.
func (m Scopes) Opener(scope string) string {
	if s := m.open[scope]; s != nil {
		return s.Opener
	}
	return ""
}

// CanContinue reports whether a runner can continue a scope now: its run is open, the target of a transfer has to start, a
// question in it or in a scope inside it was answered after its run started, or it waits for something external,
// whose state must be checked.
func (m Scopes) CanContinue(scope string) bool {
	s := m.open[scope]
	if s == nil || !s.Run.Waits() || m.waitsExternally(s) {
		return s != nil
	}
	goesOn := slices.ContainsFunc(s.Run.Pending, func(c Call) bool { return c.Resolved && c.At > s.Run.Start })
	s.Run.Opens(func(opener string) {
		goesOn = goesOn || slices.ContainsFunc(m.inside[opener], m.CanContinue)
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
	s := m.open[name]
	if s == nil {
		if m.open == nil {
			m.open, m.inside = make(map[string]*Scope), make(map[string][]string)
		}
		s = &Scope{}
		m.open[name] = s
	}
	return s
}

// recordOpener records which run or call opened a scope.
func (m Scopes) recordOpener(name string) {
	if opener := m.open[name].Opener; opener != "" {
		m.inside[opener] = append(m.inside[opener], name)
	}
}

func (m Scopes) remove(name string) {
	opener := m.Opener(name)
	delete(m.open, name)
	if rest := slices.DeleteFunc(m.inside[opener], func(other string) bool { return other == name }); len(rest) > 0 {
		m.inside[opener] = rest
	} else {
		delete(m.inside, opener)
	}
}

// removeInside removes the scopes that a run or call opened, and all scopes inside these.
func (m Scopes) removeInside(opener string) {
	names := m.inside[opener]
	delete(m.inside, opener)
	for _, name := range names {
		s := m.open[name]
		delete(m.open, name)
		s.Run.Opens(m.removeInside)
	}
}

func (m Scopes) clear() {
	clear(m.open)
	clear(m.inside)
}

// clone returns an independent copy.
func (m Scopes) clone() (c Scopes) {
	for _, name := range m.Names() {
		*c.add(name) = m.open[name].clone()
		c.recordOpener(name)
	}
	return c
}

// MarshalJSON returns an object that maps the names to the scopes.
func (m Scopes) MarshalJSON() ([]byte, error) { return event.Marshal(m.open) }

// UnmarshalJSON reads the output of MarshalJSON.
func (m *Scopes) UnmarshalJSON(data []byte) error {
	var read Scopes
	if err := json.Unmarshal(data, &read.open); err != nil {
		return err
	}
	if read.open != nil {
		read.inside = make(map[string][]string)
	}
	for _, name := range read.Names() {
		read.recordOpener(name)
	}
	*m = read
	return nil
}
