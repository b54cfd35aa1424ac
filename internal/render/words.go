package render

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Cut shortens a text to at most n characters, with an ellipsis for the rest.
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

// Count words a number of things, whose noun takes an s unless there is one.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// grouped is Count for numbers that may be large.
func grouped(n int, noun string) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return strings.Replace(Count(n, noun), strconv.Itoa(n), digits, 1)
}
