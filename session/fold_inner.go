package session

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Scopes are the inner scopes of the current turn that are not over, by their names. In each, a run is open or
// waits, or the target of a transfer has not started.
type Scopes struct {
	open   map[string]*Scope
	inside map[string][]string // their names in the order in which they were opened, by what has opened them
}

// Len returns how many there are.
func (m Scopes) Len() int { return len(m.open) }

// Names returns the names in the order in which the scopes were opened; a scope comes before the scopes inside it.
func (m Scopes) Names() []string {
	if len(m.open) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(m.open), func(a, b string) int { return cmp.Compare(m.open[a].First, m.open[b].First) })
}

// Inside returns how many of the scopes the run of a workflow opened for its children, or a call opened for the agent
// of a tool.
func (m Scopes) Inside(opener string) int { return len(m.inside[opener]) }

// Runs reports whether a run of a scope is open or waits.
func (m Scopes) Runs(scope, run string) bool {
	s := m.open[scope]
	return s != nil && s.Run.ID == run && (s.Run.Open || s.Run.Finish == event.FinishReasonInputRequired)
}

// Opener returns the run of a workflow or the call that opened a scope, and "" for a scope that is none of these.
func (m Scopes) Opener(scope string) string {
	if s := m.open[scope]; s != nil {
		return s.Opener
	}
	return ""
}

// GoesOn reports whether a scope has work to do: its run is open, or it waits and a decision was made since,
// in it or in a scope inside it, or it waits for something outside whose state must be checked.
func (m Scopes) GoesOn(scope string) bool {
	s := m.open[scope]
	if s == nil || !s.Run.Waits() || m.elsewhere(s) {
		return s != nil
	}
	goesOn := slices.ContainsFunc(s.Run.Pending, func(c Call) bool { return c.Resolved && c.At > s.Run.Start })
	s.Run.Opens(func(opener string) {
		goesOn = goesOn || slices.ContainsFunc(m.inside[opener], m.GoesOn)
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

// add returns a scope to be changed, which it opens if it is not open.
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

// note records what has opened a scope.
func (m Scopes) note(name string) {
	if opener := m.open[name].Opener; opener != "" {
		m.inside[opener] = append(m.inside[opener], name)
	}
}

// remove forgets a scope.
func (m Scopes) remove(name string) {
	opener := m.Opener(name)
	delete(m.open, name)
	if rest := slices.DeleteFunc(m.inside[opener], func(other string) bool { return other == name }); len(rest) > 0 {
		m.inside[opener] = rest
	} else {
		delete(m.inside, opener)
	}
}

// drop forgets the scopes that something has opened, and all inside of them.
func (m Scopes) drop(opener string) {
	names := m.inside[opener]
	delete(m.inside, opener)
	for _, name := range names {
		s := m.open[name]
		delete(m.open, name)
		s.Run.Opens(m.drop)
	}
}

// clear forgets all scopes.
func (m Scopes) clear() {
	clear(m.open)
	clear(m.inside)
}

// clone returns a copy that changes on its own.
func (m Scopes) clone() (c Scopes) {
	for _, name := range m.Names() {
		*c.add(name) = m.open[name].clone()
		c.note(name)
	}
	return c
}

// MarshalJSON returns an object with the scopes by their names.
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
		read.note(name)
	}
	*m = read
	return nil
}
