package expression

import (
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// habits contains notations of other languages, with the correct form. The first match counts.
var habits = []struct {
	pattern *lazyregexp.Regexp
	hint    string
}{
	{lazyregexp.New(`\$?\{\{|\$\{`), "write the expression alone, without ${{ }} around it"},
	{lazyregexp.New(`===`), "write == for equal"},
	{lazyregexp.New(`!==`), "write != for not equal"},
	{lazyregexp.New(`[“”„‘’]`), `write a text in straight quotes, "a" or 'a'`},
	{lazyregexp.New(`=>`), "a function is not written with =>: filter(output.items, .score > 1) names the item by the dot"},
	{lazyregexp.New(`<>`), "write != for not equal"},
	{lazyregexp.New(`\b(AND|OR|NOT|IN)\b`), "write and, or, not and in with small letters"},
	{lazyregexp.New(`\.length\b`), "write len(…) for the length"},
	{lazyregexp.New(`[^=!<>]=[^=]`), "write == for equal"},
	{lazyregexp.New(`\b(is|equals)\b`), "write == for equal"},
	{lazyregexp.New(`^\s*\w+(\s+\w+){2,}[\s.?!]*$`), "a sentence cannot be evaluated: an expression is such as output.intent == 'billing'"},
}

// hint returns a hint about what a source that cannot be parsed probably means, or "".
func hint(source string) string {
	plain := blankTexts(source)
	for _, h := range habits {
		if h.pattern.MatchString(plain) {
			return h.hint
		}
	}
	return ""
}

// blankTexts replaces quoted texts by spaces.
func blankTexts(source string) string {
	var out strings.Builder
	quote, escaped := rune(0), false
	for _, r := range source {
		switch {
		case quote == 0:
			if r == '\'' || r == '"' || r == '`' {
				quote = r
			}
			out.WriteRune(r)
		case escaped:
			escaped = false
			out.WriteRune(' ')
		case r == '\\' && quote != '`':
			escaped = true
			out.WriteRune(' ')
		case r == quote:
			quote = 0
			out.WriteRune(r)
		default:
			out.WriteRune(' ')
		}
	}
	return out.String()
}

// foreignWords maps keywords of other languages that look like names here to their replacements.
var foreignWords = map[string]string{
	"null": "nil", "None": "nil", "undefined": "nil", "NULL": "nil", "Nil": "nil",
	"True": "true", "TRUE": "true", "False": "false", "FALSE": "false",
}

// foreignMethods maps methods of other languages to their replacements.
var foreignMethods = map[string]string{
	"includes": "a contains b for texts, b in a for lists", "contains": "a contains b for texts, b in a for lists",
	"startsWith": "a startsWith b", "startswith": "a startsWith b", "endsWith": "a endsWith b", "endswith": "a endsWith b",
	"toLowerCase": "lower(a)", "lower": "lower(a)", "toUpperCase": "upper(a)", "upper": "upper(a)",
	"trim": "trim(a)", "strip": "trim(a)", "length": "len(a)", "size": "len(a)", "len": "len(a)",
	"toString": "string(a)", "match": "a matches 'pattern'", "test": "a matches 'pattern'", "split": "split(a, ',')",
	"join": "join(a, ',')", "filter": "filter(a, .field > 1)", "map": "map(a, .field)", "some": "any(a, .field > 1)",
	"every": "all(a, .field > 1)", "find": "find(a, .field > 1)", "get": "get(a, 'field')", "keys": "keys(a)",
}
