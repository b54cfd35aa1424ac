package cli

import (
	"strings"
	"unicode/utf8"
)

// visible makes the control characters of a text harmless and visible, so that
// what a model or a tool wrote cannot move a cursor, set a title or hide words.
// Newlines and tabs stay; a carriage return is dropped; the other C0 characters
// become their control pictures (ESC is ␛); C1 characters, overrides of the
// direction of writing and invalid UTF-8 become �.
func visible(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case r == '\r':
		case !unsafeRune(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('\u2400' + r)
		case r == 0x7f:
			b.WriteRune('\u2421')
		default:
			b.WriteRune(utf8.RuneError)
		}
	}
	return b.String()
}

func unsafeRune(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202d' || r == '\u202e' || r == utf8.RuneError
}

// oneLine is visible for texts that must stay on one line: each run of white
// space becomes one space.
func oneLine(s string) string { return strings.Join(strings.Fields(visible(s)), " ") }

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
