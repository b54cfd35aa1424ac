package agentgraph

import "github.com/agentarbor/arbor/internal/nearest"

// maxHints bounds how many misspelt names are compared with all others, which
// takes time that grows with their product.
const maxHints = 20

// near returns what there is to compare a misspelt name with: nothing after too many.
func (r *reader) near(known []string) []string {
	if r.hints >= maxHints {
		return nil
	}
	if len(known) > maxHints { // tables of keys are short
		r.hints++
	}
	return known
}

// nearest returns the known name that a misspelt one most probably means, or "".
func (r *reader) nearest(name string, known []string) string {
	return nearest.Of(name, r.near(known))
}

// didYouMean ends a message about an unknown name.
func (r *reader) didYouMean(name string, known []string) string {
	return nearest.Hint(name, r.near(known))
}
