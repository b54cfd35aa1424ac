package openai

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// namespaces are the prefixes that models write before a tool's name, followed by a dot, a colon or a slash.
var namespaces = [...]string{"functions", "function", "default_api", "tools", "tool"}

// tokens matches the tokens of a model's template between the parts of an answer, complete or cut off.
var tokens = lazyregexp.New(`<[^<>]*>?`)

// resolveName returns the name of the tool that a written name means. It removes the tokens of a template, namespaces,
// numbers of calls, quotes and white space. If exactly one tool has a name that is like one of the resulting names, it
// returns that tool's name, and otherwise the written name. Equal compares two names.
func resolveName(tools []llm.ToolSpec, name string, equal func(a, b string) bool) string {
	offered := func(name string) bool { return offers(tools, likeName(tools, name, equal)) }
	if offered(name) {
		return likeName(tools, name, equal)
	}
	found := name
	for _, s := range tokens.Get().Split(name, -1) {
		s = strings.Join(strings.Fields(s[strings.LastIndex(s, " to=")+1:]), "")
		s = strings.Trim(strings.TrimPrefix(s, "to="), "\"'`().:,")
		for _, space := range slices.Concat(namespaces[:], namespaces[:]) { // twice, because they may be nested
			if after, ok := strings.CutPrefix(s, space); ok && after != "" && strings.IndexByte(".:/", after[0]) >= 0 {
				s = strings.TrimLeft(after, ".:/")
			}
		}
		if at := strings.LastIndexByte(s, ':'); at > 0 && strings.Trim(s[at+1:], "0123456789") == "" {
			s = s[:at]
		}
		if s = strings.TrimSuffix(s, ".call"); !offered(s) {
			s = strings.TrimPrefix(s, "_") // see toolName
		}
		s = likeName(tools, s, equal)
		switch {
		case !offered(s) || s == found:
		case found != name:
			return name
		default:
			found = s
		}
	}
	return found
}

// use is a call within another one.
type use struct {
	Name       string          `json:"recipient_name"`
	Parameters json.RawMessage `json:"parameters"`
}

// unrolled returns calls with those that a call of multi_tool_use.parallel contains in its place. Models of OpenAI make up
// this tool. It also returns a call for each object, if the arguments are several: gateways join calls of one tool
// (BerriAI/litellm#40582). The call stays if it names a tool that is not offered.
func unrolled(calls []llm.ToolCall, tools []llm.ToolSpec) []llm.ToolCall {
	for i := len(calls) - 1; i >= 0; i-- {
		name := calls[i].Name
		var all struct {
			Uses []use `json:"tool_uses"`
		}
		for _, object := range objectsIn(calls[i].Arguments) {
			all.Uses = append(all.Uses, use{name, object})
		}
		parallel := !offers(tools, name) && strings.HasPrefix(strings.TrimPrefix(name, "functions."), "multi_tool_use")
		if parallel && json.Unmarshal([]byte(calls[i].Arguments), &all) != nil || len(all.Uses) == 0 {
			continue
		}
		var inner []llm.ToolCall
		for n, use := range all.Uses {
			c := calls[i]
			c.Name, c.Arguments = resolveName(tools, use.Name, strings.EqualFold), cmp.Or(string(use.Parameters), "{}")
			if n > 0 {
				c.ID += "_" + strconv.Itoa(n+1)
			}
			inner = append(inner, c)
		}
		if !slices.ContainsFunc(inner, func(c llm.ToolCall) bool { return !offers(tools, c.Name) }) {
			calls = slices.Replace(calls, i, i+1, inner...)
		}
	}
	return calls
}

// objectsIn returns the objects of which arguments consist, if they are more than one but not very many, without those
// that another one continues: all of their members are in that one, too.
func objectsIn(args string) (all []json.RawMessage) {
	d := json.NewDecoder(strings.NewReader(args))
	for n := 0; ; n++ {
		var object json.RawMessage
		switch err := d.Decode(&object); {
		case err == io.EOF && n > 1:
			return all
		case err != nil || object[0] != '{' || n >= maxLeakedCalls:
			return nil
		case !slices.ContainsFunc(all, func(o json.RawMessage) bool { return continues(o, object) }):
			all = append(slices.DeleteFunc(all, func(o json.RawMessage) bool { return continues(object, o) }), object)
		}
	}
}

// continues reports whether an object has all members of another one.
func continues(object, other json.RawMessage) bool {
	var members, others map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil || json.Unmarshal(other, &others) != nil {
		return false
	}
	for name, value := range others {
		if !sameJSON(string(members[name]), string(value)) {
			return false
		}
	}
	return true
}

// hasName reports whether a tool has this name or alias.
func hasName(t llm.ToolSpec, name string) bool {
	return name != "" && (t.Name == name || slices.Contains(t.Aliases, name))
}

// offers reports whether one of the tools has the name.
func offers(tools []llm.ToolSpec, name string) bool {
	return slices.ContainsFunc(tools, func(t llm.ToolSpec) bool { return hasName(t, name) })
}

// likeName returns the name of the only tool whose name is equal but for the marks between its words, or the name as it
// is. Names of calls are compared without their case. In a text, the case may be all that makes a name an ordinary word.
func likeName(tools []llm.ToolSpec, name string, equal func(a, b string) bool) string {
	if offers(tools, name) {
		return name
	}
	found := name
	for _, t := range tools {
		for _, own := range append([]string{t.Name}, t.Aliases...) {
			switch {
			case own == "" || own == found || !equal(plainName(own), plainName(name)):
			case found != name || own == name:
				return name
			default:
				found = own
			}
		}
	}
	return found
}

// plainName returns a name with an underscore for each mark.
func plainName(name string) string { return strings.ReplaceAll(wireName(name), "-", "_") }
