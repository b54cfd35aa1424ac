package openai

import (
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

var pythonKey = lazyregexp.New(`^\s*(\w+)\s*[=:]`)

// fromPython returns the arguments of a call in Python as a JSON object: key=value, …, with or without parentheses, or one
// dict. It reads only literals without tuples, and returns "" for anything else.
func fromPython(s string) string {
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "(") {
		s = strings.TrimSpace(strings.TrimSuffix(s[1:], ")"))
	}
	if !strings.HasPrefix(s, "{") {
		var b strings.Builder
		keys := make(map[string]bool)
		for s != "" {
			found := pythonKey.Get().FindStringSubmatch(s)
			if found == nil || keys[found[1]] {
				return ""
			}
			keys[found[1]] = true
			s = s[len(found[0]):]
			var at scan
			n := 0
			for n < len(s) && (s[n] != ',' || at.depth > 0 || at.quote != 0) {
				at.step(s[n])
				n++
			}
			b.WriteString(quote(found[1]) + ":" + s[:n] + ",")
			s = strings.TrimLeft(s[min(n+1, len(s)):], " \t\r\n")
		}
		s = "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	if object, rest, ok := lenient(s); ok && rest == "" {
		return object
	}
	return ""
}
