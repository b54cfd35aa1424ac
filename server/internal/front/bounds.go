package front

import (
	"fmt"
	"strings"
)

// A client may send thousands of mistakes. An answer names mostListed of them and says how many more there are,
// and it repeats at most longest bytes of a name or of a text.
const mostListed, longest = 20, 256

// Listed bounds names that a client gave, for a header or an event that repeats them.
func Listed(names []string) []string {
	var out []string
	for i, name := range names {
		if i == mostListed {
			return append(out, fmt.Sprintf("and %d more", len(names)-i))
		}
		out = append(out, cut(name, longest))
	}
	return out
}

// bounded returns a copy of the fault that is short enough to send.
func (f *Fault) bounded() *Fault {
	out := *f
	out.Detail, out.Problems = cut(f.Detail, 4*longest), nil
	for i, p := range f.Problems {
		if i == mostListed {
			out.Problems = append(out.Problems, Problem{Message: fmt.Sprintf("and %d more", len(f.Problems)-i)})
			break
		}
		out.Problems = append(out.Problems, Problem{cut(p.Path, longest), cut(p.Message, longest)})
	}
	return &out
}

// cut bounds a text in bytes, at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
