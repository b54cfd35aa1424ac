package render

import (
	"fmt"
	"strconv"
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

// Count returns a number with a noun, which gets an s unless the number is 1.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// grouped is like [Count], with digit groups for large numbers.
func grouped(n int, noun string) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return strings.Replace(Count(n, noun), strconv.Itoa(n), digits, 1)
}
