package schema

import "strings"

// StripCodeFence returns the content of a code block if the whole text is one, and otherwise the text, in both cases
// without white space around it. Models often write JSON in a code block.
func StripCodeFence(text string) string {
	text = strings.TrimSpace(text)
	inner, opens := strings.CutPrefix(text, "```")
	inner, closes := strings.CutSuffix(inner, "```")
	if !opens || !closes {
		return text
	}
	if first, body, more := strings.Cut(inner, "\n"); more && !strings.ContainsAny(strings.TrimSpace(first), " {[\"") {
		inner = body // the first line names the language
	}
	return strings.TrimSpace(strings.TrimPrefix(inner, "json"))
}
