// Package nearest finds the known name that is most similar to a misspelt one, for hints.
package nearest

import (
	"strconv"
	"strings"
)

// Of returns the known name that is most similar to a misspelt one, or "": at most a third of the characters may
// differ. It ignores case, and whether a name is written with - or _. Of several equally similar names the first wins.
// It ignores names that are longer than any that people write.
func Of(name string, known []string) string { return Within(name, known, max(1, len([]rune(name))/3)) }

// Within is [Of] with an explicit limit of differing characters.
func Within(name string, known []string, most int) string {
	if len(name) > 100 {
		return ""
	}
	plain := plainly(name)
	best, least := "", most+1
	for _, k := range known {
		if len(k) > 200 {
			continue
		}
		other := plainly(k)
		if diff := len(plain) - len(other); max(diff, -diff) >= least {
			continue
		}
		if d := distance(plain, other); d < least {
			best, least = k, d
		}
	}
	return best
}

// Hint returns the end of a message about an unknown name, "" if no known name is similar.
func Hint(name string, known []string) string {
	if k := Of(name, known); k != "" {
		return "; did you mean " + strconv.Quote(k) + "?"
	}
	return ""
}

// Listed is [Hint], but lists all known names if none is similar and there are only a few.
func Listed(name string, known []string) string {
	hint := Hint(name, known)
	if hint == "" && len(known) > 0 && len(known) <= 12 {
		hint = "; there are " + strings.Join(known, ", ")
	}
	return hint
}

func plainly(name string) []rune {
	return []rune(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "_"))
}

// distance is the optimal string alignment distance: insertions, deletions, replacements, and swaps of neighbours
// (en.wikipedia.org/wiki/Damerau-Levenshtein_distance). It takes time proportional to the product of the lengths.
func distance(a, b []rune) int {
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
