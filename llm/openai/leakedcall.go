package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
)

// parse reads the name and arguments of a call from JSON: an object with the name of a callable tool, with arguments,
// which are an object or a string that contains one, and with no other members than a type and an id. It also reads an
// object with such a name and arguments in the member "function", which is the form of the protocol. Double braces
// count as single ones, because models copy them from templates that had to escape them.
func (l *leakFilter) parse(raw []byte, marked bool) (name, args string, ok bool) {
	forms := [][]byte{raw}
	if bytes.Contains(raw, []byte("{{")) {
		forms = append(forms, raw[1:len(raw)-1], singleBraces(raw))
	}
	forms = append(forms, []byte(fromPython(string(raw))))
	for _, form := range forms {
		var o map[string]json.RawMessage
		if json.Unmarshal(form, &o) != nil {
			continue
		}
		if wrapped, ok := o["function"]; ok && wrapped[0] != '"' {
			inner := make(map[string]json.RawMessage)
			if !hasOnly(o, "function", "type", "id") || json.Unmarshal(wrapped, &inner) != nil ||
				inner["function"] != nil || describes(inner) {
				return "", "", false
			}
			o = inner
		}
		return l.call(o, marked)
	}
	return "", "", false
}

// call reads a call from the members of an object. A call in marks may have no arguments, and so may one whose name alone is a
// call.
func (l *leakFilter) call(o map[string]json.RawMessage, marked bool) (name, args string, ok bool) {
	named, names := memberOf(o, nameKeys)
	given, both := memberOf(o, argumentKeys)
	if names != 1 || json.Unmarshal(named, &name) != nil {
		return "", "", false
	}
	if both == 0 && (marked || l.first && l.isBare(name) && !l.mentioned(name)) {
		given, both = json.RawMessage("{}"), 1
	}
	if both != 1 || !hasOnly(o, callKeys...) || isSchema(o["parameters"]) {
		return "", "", false
	}
	var text string
	if given[0] == '"' && json.Unmarshal(given, &text) == nil {
		given = json.RawMessage(strings.TrimSpace(text))
	}
	if isPlaceholder(string(given)) {
		given = json.RawMessage("{}")
	}
	name = l.tool(name)
	return name, string(given), name != "" && len(given) > 0 && given[0] == '{' && json.Valid(given)
}

// memberOf returns the member that has one of the keys, and the number of such members.
func memberOf[V any](o map[string]V, keys []string) (value V, n int) {
	for _, key := range keys {
		if member, ok := o[key]; ok {
			value, n = member, n+1
		}
	}
	return value, n
}

// nameKeys are the keys of a call's tool, argumentKeys those of its arguments, and callKeys all that a call can have.
var (
	nameKeys     = []string{"name", "tool_name", "tool", "function", "action", "function_name", "recipient_name"}
	argumentKeys = []string{"arguments", "parameters", "args", "input", "tool_input", "action_input"}
	callKeys     = slices.Concat(nameKeys, argumentKeys, []string{"type", "id", "tool_call_id"})
)

// describes reports whether the member "function" of an object describes a tool without arguments, and is not a call of
// it. A false match is safe: the call remains text.
func describes(function map[string]json.RawMessage) bool {
	given, n := memberOf(function, argumentKeys)
	var members map[string]any
	return n == 0 || function["parameters"] != nil && json.Unmarshal(given, &members) == nil && len(members) == 0
}

// isSchema reports whether an object describes the arguments of a call, and is not the arguments.
func isSchema(parameters json.RawMessage) bool {
	var s struct {
		Type       any `json:"type"`
		Properties any `json:"properties"`
	}
	return json.Unmarshal(parameters, &s) == nil && (s.Type == "object" || s.Properties != nil)
}

// hasOnly reports whether an object has only these keys.
func hasOnly(o map[string]json.RawMessage, keys ...string) bool {
	for key := range o {
		if !slices.Contains(keys, key) {
			return false
		}
	}
	return true
}

// singleBraces replaces double braces by single ones, except in strings.
func singleBraces(raw []byte) []byte {
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

// keyed returns the arguments of a call that were written one after the other, as an object.
func (l *leakFilter) keyed(t *trial) (args string, ok bool) {
	var takes *schema.Shape
	for _, tool := range l.tools {
		if takes == nil && hasName(tool, t.name) {
			takes = schema.ReadShape(tool.Parameters)
		}
	}
	takes = cmp.Or(takes, &schema.Shape{})
	members, keys := make([]string, len(t.args)), make(map[string]bool, len(t.args))
	for i, arg := range t.args {
		key, value := arg[0], arg[1]
		if keys[key] || key == "" {
			return "", false
		}
		keys[key] = true
		members[i] = quote(key) + ": " + typed(value, takes.Members[key].Shape())
	}
	return "{" + strings.Join(members, ", ") + "}", true
}

// typed returns a value that was written without quotes as JSON. If it can be a text, only an object or a list that is
// allowed is no text.
func typed(written string, takes *schema.Shape) string {
	value := strings.TrimSpace(written)
	if word, ok := map[string]string{"True": "true", "False": "false", "None": "null"}[value]; ok {
		value = word
	}
	if json.Valid([]byte(value)) && (!takes.Allows("string") || (value[0] == '{' || value[0] == '[') && takes.Allows(kindOf(value))) {
		return value
	}
	written = strings.TrimPrefix(strings.TrimPrefix(written, "\r"), "\n")
	return quote(strings.TrimSuffix(strings.TrimSuffix(written, "\n"), "\r"))
}

func quote(s string) string {
	b, _ := json.Marshal(s) // encoding a string cannot fail
	return string(b)
}

// quoted reports whether a message of the user or the result of a tool contains one of the calls. The model may have
// copied such a call from others, so it must not run. A text contains a call if it has a call in some form, and all
// members of the call in any order, with any text between them, escaped or not. A false match is safe: the call remains
// text. If the values of a call have no quotes, a text that contains the mark at their end also matches, because a
// value that others wrote could have added arguments.
func (l *leakFilter) quoted(t *trial) bool {
	held := squeezed(string(l.held[:t.until]))
	for text := range textsOfOthers(l.req) {
		all, letters := squeezed(text), plain(text)
		lacks := func(member string) bool { return !strings.Contains(letters, member) }
		inJSON := slices.ContainsFunc(argumentKeys, func(key string) bool { return !lacks(key + ":") })
		marked := slices.ContainsFunc(callMarks(), func(mark string) bool { return strings.Contains(all, mark) })
		if t.raw != "" && strings.Contains(all, squeezed(t.raw)) {
			return true
		}
		for _, call := range t.calls {
			var args any
			if plainjson.Unmarshal([]byte(call.Arguments), &args) != nil {
				return true // it was valid when it was read
			}
			members := appendMembers([]string{plain(call.Name)}, "", args)
			if strings.Contains(all, held) || inJSON && !slices.ContainsFunc(members, lacks) {
				return true
			}
			named := slices.ContainsFunc(strings.Split(all, squeezed(call.Name))[1:], argumentsFollow.Get().MatchString)
			if (marked || named) && !slices.ContainsFunc(strings.Split(strings.Join(members, ":"), ":"), lacks) {
				return true
			}
		}
	}
	return false
}

// argumentsFollow matches what comes after the name of a tool that is called without marks. It does not match
// NAME({…}), the form in which agents see the calls of others.
var argumentsFollow = lazyregexp.New(`^(\((\)|[a-z0-9_])|(:[0-9]*)?\{)`)

// textsOfOthers yields the texts of others in a request: the messages of the user, and the results of tools.
func textsOfOthers(req *llm.Request) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, m := range req.Messages {
			if m.Role == llm.RoleUser && !yield(m.PlainText()) {
				return
			}
			for _, part := range m.Parts {
				if res, ok := part.(llm.ToolResult); ok && !yield(res.Output) {
					return
				}
			}
		}
	}
}

// callMarks returns the marks that only calls have, squeezed.
var callMarks = sync.OnceValue(func() (marks []string) {
	for _, f := range forms() {
		for _, p := range f.parts {
			if len(p.text) > 2 && strings.ContainsAny(p.text, "<[>=") && !strings.HasPrefix(p.text, "</") {
				marks = append(marks, squeezed(p.text))
			}
		}
	}
	return marks
})

// mentioned reports whether a message of the user or the result of a tool contains the name.
func (l *leakFilter) mentioned(name string) bool {
	return slices.ContainsFunc(l.req.Messages, func(m llm.Message) bool {
		return m.Role == llm.RoleUser && strings.Contains(m.PlainText(), name) ||
			slices.ContainsFunc(m.Parts, func(p llm.Part) bool {
				res, ok := p.(llm.ToolResult)
				return ok && !res.IsError && strings.Contains(res.Output, name)
			})
	})
}

// appendMembers appends the strings that a text must contain if it contains the value under a key.
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

// squeezed returns a text in lower case, without white space and escapes.
func squeezed(s string) string {
	for range 2 { // JSON in pages, and pages in JSON
		s = unescaped(html.UnescapeString(s))
	}
	return strings.ToLower(strings.Join(strings.Fields(s), ""))
}

// plain returns the letters and digits of ASCII in lower case and three other characters of a text. It drops white
// space, quotes, braces, escapes and everything else that can differ between two forms of the same JSON.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && nameByte(byte(r)) || r == ':' {
			return r
		}
		return -1
	}, squeezed(s))
}

// unescaped resolves the escapes of JSON strings, even if they were escaped several times, and drops white space.
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
