package eval

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// leaked reports whether a text that was shown to the user looks like a call: a model wrote it as text, and the call
// was not recognized. names are the agents and tools of the tree. An answer that explains calls, or is JSON of their
// form, looks like a call too.
func leaked(text string, names []string) bool {
	text = strings.ToLower(text)
	if slices.ContainsFunc([]string{"transfer_to_", "agent_name", "tool_call", "<tool"}, func(part string) bool { return strings.Contains(text, part) }) {
		return true
	}
	dense := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return -1
		case r == '\'':
			return '"'
		}
		return r
	}, text)
	if slices.ContainsFunc([]string{`"arguments":`, `"parameters":`, `{"name":`, `{"function":`}, func(part string) bool { return strings.Contains(dense, part) }) {
		return true
	}
	return callObject(dense) || slices.ContainsFunc(names, func(name string) bool {
		name = strings.ToLower(name)
		return strings.HasPrefix(dense, name+"(") || namesOnly(text, name)
	})
}

// callObject reports whether a text, without a code fence around it, is a JSON object with no other members than a call
// has, such as {"agent":"billing","reason":"money"}.
func callObject(text string) bool {
	text = strings.TrimPrefix(strings.Trim(text, "`"), "json")
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &keys) != nil || len(keys) == 0 {
		return false
	}
	for key := range keys {
		if !slices.Contains([]string{"agent", "args", "function", "id", "name", "reason", "target", "tool", "tool_name", "type"}, key) {
			return false
		}
	}
	return true
}

// namesOnly reports whether a text consists of a name only, such as "billing" and "Transfer to: billing".
func namesOnly(text, name string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, func(w string) bool {
		return slices.Contains([]string{"agent", "call", "function", "name", "to", "transfer"}, w) && w != name
	})
	return len(words) == 1 && words[0] == name
}
