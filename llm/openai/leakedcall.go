package openai

import (
	"bytes"
	"encoding/json"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/llm"
)

// parse reads a call from JSON. It is an object with a name that may be called, with arguments,
// which are an object or a string that holds one, and with nothing else but a type and an id.
// Or it has such a name and arguments in the member "function", as calls have on the wire.
// Doubled braces, which models copy from templates that had to escape them, count as single
// ones.
func (l *leaks) parse(raw []byte) (llm.ToolCall, bool) {
	forms := [][]byte{raw}
	if bytes.Contains(raw, []byte("{{")) {
		forms = append(forms, raw[1:len(raw)-1], single(raw))
	}
	for _, form := range forms {
		var o map[string]json.RawMessage
		if json.Unmarshal(form, &o) != nil {
			continue
		}
		if wrapped, ok := o["function"]; ok {
			inner := make(map[string]json.RawMessage)
			if !only(o, "function", "type", "id") || json.Unmarshal(wrapped, &inner) != nil ||
				inner["function"] != nil || inner["parameters"] != nil { // the description of a function

				return llm.ToolCall{}, false
			}
			o = inner
		}
		return l.call(o)
	}
	return llm.ToolCall{}, false
}

// call reads a call from the members of an object.
func (l *leaks) call(o map[string]json.RawMessage) (call llm.ToolCall, ok bool) {
	args, ok := o["arguments"]
	other, both := o["parameters"]
	if !ok {
		args = other
	}
	var name string
	if ok == both || json.Unmarshal(o["name"], &name) != nil || !l.mayCall(name) || !only(o, callKeys...) {
		return call, false
	}
	var text string
	if args[0] == '"' && json.Unmarshal(args, &text) == nil {
		args = json.RawMessage(strings.TrimSpace(text))
	}
	if string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if len(args) == 0 || args[0] != '{' || !json.Valid(args) {
		return call, false
	}
	return llm.ToolCall{ID: "call_" + randomHex(), Name: name, Arguments: string(args)}, true
}

// callKeys are what a call can have as keys.
var callKeys = []string{"name", "arguments", "parameters", "type", "id", "function"}

// only reports whether an object has no other keys.
func only(o map[string]json.RawMessage, keys ...string) bool {
	for key := range o {
		if !slices.Contains(keys, key) {
			return false
		}
	}
	return true
}

// single makes single braces of double ones, outside of strings.
func single(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	quoted := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		out = append(out, c)
		switch {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\' && i+1 < len(raw):
			i++
			out = append(out, raw[i])
		case !quoted && (c == '{' || c == '}') && i+1 < len(raw) && raw[i+1] == c:
			i++
		}
	}
	return out
}

// quoted reports whether a message of the user or the result of a tool holds one
// of the calls: the model may then have copied what others wrote, which must not
// have effects. A text counts as holding a call if it contains all members of the
// call, in whatever order, between whatever else, escaped or not. That may match
// too much, which is the safe side: such a call stays words.
func (l *leaks) quoted() bool {
	var given []string
	hear := func(text string) {
		if text = plain(text); strings.Contains(text, "arguments:") || strings.Contains(text, "parameters:") {
			given = append(given, text)
		}
	}
	for _, m := range l.req.Messages {
		if m.Role == llm.RoleUser {
			hear(m.PlainText())
		}
		for _, part := range m.Parts {
			if res, ok := part.(llm.ToolResult); ok {
				hear(res.Output)
			}
		}
	}
	for _, call := range l.at.calls {
		dec := json.NewDecoder(strings.NewReader(call.Arguments))
		dec.UseNumber()
		var args any
		if dec.Decode(&args) != nil {
			return true // it was valid when it was read
		}
		members := appendMembers([]string{"name:" + plain(call.Name)}, "", args)
		for _, text := range given {
			if !slices.ContainsFunc(members, func(member string) bool { return !strings.Contains(text, member) }) {
				return true
			}
		}
	}
	return false
}

// mentioned reports whether a message of the user or the result of a tool holds the name.
func (l *leaks) mentioned(name string) bool {
	return slices.ContainsFunc(l.req.Messages, func(m llm.Message) bool {
		return m.Role == llm.RoleUser && strings.Contains(m.PlainText(), name) ||
			slices.ContainsFunc(m.Parts, func(p llm.Part) bool {
				res, ok := p.(llm.ToolResult)
				return ok && !res.IsError && strings.Contains(res.Output, name)
			})
	})
}

// appendMembers adds what a text must hold if it holds the value under a key.
func appendMembers(members []string, key string, value any) []string {
	switch v := value.(type) {
	case map[string]any:
		for k, e := range v {
			members = appendMembers(append(members, plain(k)+":"), plain(k)+":", e)
		}
		return members
	case []any:
		for _, e := range v {
			members = appendMembers(members, "", e)
		}
		return members
	case string:
		return append(members, key+plain(v))
	case json.Number:
		number := v.String()
		if strings.Contains(number, ".") && !strings.ContainsAny(number, "eE") {
			number = strings.TrimRight(number, "0") // 19.0 is 19
		}
		return append(members, key+plain(number))
	case bool:
		return append(members, key+strconv.FormatBool(v))
	}
	return append(members, key) // null
}

// plain returns what is left of a text without white space, quotes, braces,
// escapes and whatever else the same JSON can be written with or without: letters
// and digits of ASCII in lower case, and three signs.
func plain(s string) string {
	for range 2 { // JSON in pages, and pages in JSON
		s = unescaped(html.UnescapeString(s))
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-', r == ':':
			return r
		}
		return -1
	}, s)
}

// unescaped resolves the escapes of JSON strings, however often they were escaped
// again: what follows any number of backslashes. White space is left out.
func unescaped(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for len(s) > 0 {
		if s[0] != '\\' {
			out, s = append(out, s[0]), s[1:]
			continue
		}
		s = strings.TrimLeft(s, `\`)
		if s == "" {
			break
		}
		switch s[0] {
		case 'n', 'r', 't', 'b', 'f':
			s = s[1:]
		case 'u':
			if len(s) < 5 {
				break
			}
			if r, err := strconv.ParseUint(s[1:5], 16, 16); err == nil {
				out, s = utf8.AppendRune(out, rune(r)), s[5:]
			}
		}
	}
	return string(out)
}
