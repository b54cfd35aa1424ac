package openai

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// namespaces are the prefixes that models write before a tool's name, followed by a dot, a colon or a slash.
var namespaces = [...]string{"functions", "function", "default_api", "tools", "tool"}

// tokens matches the tokens of a model's template between the parts of an answer, complete or cut off.
var tokens = lazyregexp.New(`<[^<>]*>?`)

// resolveName returns the name of the tool that a written name means. It removes the tokens of a template, namespaces,
// numbers of calls, quotes and white space. If exactly one offered tool has one of the resulting names, it returns that
// name, and otherwise the written name.
func resolveName(name string, offered func(string) bool) string {
	if offered(name) {
		return name
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

// hasName reports whether a tool has this name or alias.
func hasName(t llm.ToolSpec, name string) bool {
	return name != "" && (t.Name == name || slices.Contains(t.Aliases, name))
}
