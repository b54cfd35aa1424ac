package agentgraph

import "strings"

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
		if d := edits(plain, other); d < distance {
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

// edits counts the insertions, deletions, replacements and swaps of neighbours
// between two words (the optimal string alignment distance).
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
