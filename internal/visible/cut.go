package visible

import (
	"strings"
	"unicode/utf8"
)

// Cut shortens a text to at most n characters, the last of which is an ellipsis.
func Cut(s string, n int) string {
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

// CutMiddle shortens a text to its beginning and its end, which together have at most n bytes. It splits no character.
func CutMiddle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n/2], "") + " … " + strings.ToValidUTF8(s[len(s)-n/2:], "")
}
