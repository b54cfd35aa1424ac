package agentgraph

import (
	"strings"

	"github.com/agentarbor/arbor/internal/edits"
)

// maxHints bounds how many misspelt names are compared with all others, which
// takes time that grows with their product.
const maxHints = 20

// nearest returns the known name that a misspelt one most probably means, or "". Of
// equals the first wins.
func (r *reader) nearest(name string, known []string) string {
	if len(name) > 100 || r.hints >= maxHints {
		return ""
	}
	if len(known) > maxHints { // tables of keys are short
		r.hints++
	}
	plain := []rune(strings.ToLower(strings.TrimSpace(name)))
	best, distance := "", max(1, len(plain)/3)+1
	for _, k := range known {
		if len(k) > 200 {
			continue
		}
		other := []rune(strings.ToLower(k))
		if diff := len(plain) - len(other); max(diff, -diff) >= distance {
			continue
		}
		if d := edits.Distance(plain, other); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// didYouMean ends a message about an unknown name.
func (r *reader) didYouMean(name string, known []string) string {
	if k := r.nearest(name, known); k != "" {
		return `; did you mean "` + k + `"?`
	}
	return ""
}
