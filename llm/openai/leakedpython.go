package openai

import (
	"encoding/json"
	"slices"
	"strings"
)

// fromPython returns what is between the parentheses of a call in Python as a JSON object: key=value, …, or a
// dict in place of all of them. It reads literals only, without tuples; what is none of these does not become valid JSON.
func fromPython(s string) string {
	var b []byte
	var keys []string
	depth := 0
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, " \t\r\n") {
		c := s[0]
		n := 1
		switch {
		case c == '"' || c == '\'':
			text, size, ok := pythonString(s)
			if n = size; !ok {
				return ""
			}
			b = append(b, quote(text)...)
		case nameByte(c):
			for n < len(s) && (nameByte(s[n]) || s[n] == '.' || s[n] == '+') {
				n++
			}
			word := s[:n]
			if after, ok := strings.CutPrefix(strings.TrimLeft(s[n:], " "), "="); ok && depth == 0 && !slices.Contains(keys, word) {
				keys, b = append(keys, word), append(append(b, quote(word)...), ':')
				n = len(s) - len(after)
				break
			}
			if b = append(b, pythonWord(word)...); n < len(s) && blank(s[n]) {
				b = append(b, ' ')
			}
		case c == ',' && strings.IndexAny(strings.TrimLeft(s[1:], " \t\r\n")+")", ")]}") == 0: // after the last
		default:
			depth += strings.Count("{[", s[:1]) - strings.Count("}]", s[:1])
			b = append(b, c)
		}
		s = s[n:]
	}
	if len(b) == 0 || b[0] != '{' {
		b = append(append([]byte{'{'}, b...), '}')
	}
	return string(b)
}

func pythonWord(word string) string {
	switch word {
	case "True", "False":
		return strings.ToLower(word)
	case "None":
		return "null"
	}
	return word
}

// pythonString reads the string in either kind of quotes that a text begins with.
func pythonString(s string) (text string, size int, ok bool) {
	inJSON := []byte{'"'}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			ok = json.Unmarshal(append(inJSON, '"'), &text) == nil
			return text, i + 1, ok
		case c == '"':
			inJSON = append(inJSON, '\\', c)
		case c == '\\' && i+1 < len(s):
			if i++; s[i] != '\'' {
				inJSON = append(inJSON, c)
			}
			inJSON = append(inJSON, s[i])
		default:
			inJSON = append(inJSON, c)
		}
	}
	return "", 0, false
}
