package agentfile

import (
	"path"
	"strings"

	"github.com/agentarbor/arbor/internal/edits"
)

// nearest returns the known name that a misspelt one most probably means, or "".
// What differs in case only, or carries a path or the ending .md, is nearest;
// else at most a third of the letters may differ. Of equals the first wins.
func nearest(name string, known []string) string {
	if len(name) > 100 { // no name is that long, and the work is quadratic
		return ""
	}
	plain := plainName(name)
	best, distance := "", max(1, len([]rune(plain))/3)+1
	for _, k := range known {
		other := plainName(k)
		if diff := len([]rune(plain)) - len([]rune(other)); max(diff, -diff) >= distance {
			continue
		}
		d := edits.Distance([]rune(plain), []rune(other))
		if d < distance {
			best, distance = k, d
		}
	}
	return best
}

func plainName(s string) string {
	s = strings.ToLower(path.Base(strings.TrimSpace(s)))
	return strings.ReplaceAll(strings.TrimSuffix(s, ".md"), "-", "_")
}

// didYouMean ends a message about an unknown name.
func didYouMean(name string, known []string) string {
	if k := nearest(name, known); k != "" {
		return `; did you mean "` + k + `"?`
	}
	return ""
}
