package agentgraph

import "github.com/agentarbor/arbor/internal/nearest"

// maxHints limits how many misspelt names are compared with long lists of names, because the time grows with the
// product of both.
const maxHints = 20

// near returns the names to compare a misspelt name with, or nil if the limit is reached.
func (r *reader) near(known []string) []string {
	if r.hints >= maxHints {
		return nil
	}
	if len(known) > maxHints { // tables of keys are shorter and do not count
		r.hints++
	}
	return known
}

// nearest returns the known name that is closest to a misspelt one, or "".
func (r *reader) nearest(name string, known []string) string {
	return nearest.Of(name, r.near(known))
}

// didYouMean returns the end of a message about an unknown name.
func (r *reader) didYouMean(name string, known []string) string {
	return nearest.Hint(name, r.near(known))
}
