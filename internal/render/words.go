package render

import (
	"fmt"
	"strconv"
	"strings"
)

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
