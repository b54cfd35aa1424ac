package cli

import (
	"unicode/utf8"

	"github.com/agentarbor/arbor/internal/visible"
)

// oneLine is for what others have said where it must stay on one line.
func oneLine(s string) string { return visible.Line(s) }

// cut shortens a text to at most n characters, with an ellipsis for the rest.
func cut(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	i := 0
	for pos := range s {
		if i == n-1 {
			return s[:pos] + "…"
		}
		i++
	}
	return s
}
