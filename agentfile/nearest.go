package agentfile

import (
	"path"
	"strings"
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
		d := edits([]rune(plain), []rune(other))
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

// edits is the optimal string alignment distance: insertions, deletions,
// replacements, and swaps of neighbours (en.wikipedia.org/wiki/Damerau-Levenshtein_distance).
func edits(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// didYouMean ends a message about an unknown name.
func didYouMean(name string, known []string) string {
	if k := nearest(name, known); k != "" {
		return `; did you mean "` + k + `"?`
	}
	return ""
}
