package agentgraph

import "github.com/agentarbor/arbor/internal/edits"

// maxHints bounds how many misspelt names are compared with all others, which
// takes time that grows with their product.
const maxHints = 20

// nearest returns the known name that a misspelt one most probably means, or "".
func (r *reader) nearest(name string, known []string) string {
	if r.hints >= maxHints {
		return ""
	}
	if len(known) > maxHints { // tables of keys are short
		r.hints++
	}
	return edits.Nearest(name, known)
}

// didYouMean ends a message about an unknown name.
func (r *reader) didYouMean(name string, known []string) string {
	if k := r.nearest(name, known); k != "" {
		return `; did you mean "` + k + `"?`
	}
	return ""
}
