// Package edits tells how far two words are apart, for hints about misspelt names.
// It imports nothing of this module.
package edits

import "strings"

// Nearest returns the known name that a misspelt one most probably means, or "": at most
// a third of the letters may differ, not counting their case. Of equals the first wins.
// Names longer than any that people write are not compared.
func Nearest(name string, known []string) string {
	if len(name) > 100 {
		return ""
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
		if d := Distance(plain, other); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// Distance is the optimal string alignment distance: insertions, deletions,
// replacements, and swaps of neighbours (en.wikipedia.org/wiki/Damerau-Levenshtein_distance).
// Its work is the product of the lengths.
func Distance(a, b []rune) int {
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
