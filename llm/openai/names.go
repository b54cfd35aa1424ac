package openai

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// namespaces are the words that models write in front of a tool's name, with a dot, a colon or a slash between.
var namespaces = [...]string{"functions", "function", "default_api", "tools", "tool"}

// tokens are what a model's template has between the parts of an answer, cut off or not.
var tokens = lazyregexp.New(`<[^<>]*>?`)

// meant returns the name of the tool that a model means by a name: the only one that is offered among those that are
// left without the tokens of a template, namespaces, numbers of calls, quotes and white space. Otherwise it returns the name as it is.
func meant(name string, offered func(string) bool) string {
	if offered(name) {
		return name
	}
	found := name
	for _, s := range tokens.Get().Split(name, -1) {
		s = strings.Join(strings.Fields(s[strings.LastIndex(s, " to=")+1:]), "")
		s = strings.Trim(strings.TrimPrefix(s, "to="), "\"'`().:,")
		for _, space := range slices.Concat(namespaces[:], namespaces[:]) { // of each other, too
			if after, ok := strings.CutPrefix(s, space); ok && after != "" && strings.IndexByte(".:/", after[0]) >= 0 {
				s = strings.TrimLeft(after, ".:/")
			}
		}
		if at := strings.LastIndexByte(s, ':'); at > 0 && strings.Trim(s[at+1:], "0123456789") == "" {
			s = s[:at]
		}
		if s = strings.TrimSuffix(s, ".call"); !offered(s) {
			s = strings.TrimPrefix(s, "_") // of toolName
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

// called reports whether a tool is called by this name.
func called(t llm.ToolSpec, name string) bool {
	return name != "" && (t.Name == name || slices.Contains(t.Aliases, name))
}
