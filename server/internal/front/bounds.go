package front

import (
	"fmt"
	"strings"
)

// A request may have thousands of mistakes. An answer contains maxListed of them and the number of the others. It
// repeats at most maxName bytes of a name.
const maxListed, maxName = 20, 256

// Shortened returns the first 20 names, truncated, and the number of the others. It is for headers and events that
// repeat names from a request.
func Shortened(names []string) []string {
	var out []string
	for i, name := range names {
		if i == maxListed {
			return append(out, fmt.Sprintf("and %d more", len(names)-i))
		}
		out = append(out, truncate(name, maxName))
	}
	return out
}

// bounded returns a copy of the fault with shortened texts and problems.
func (f *Fault) bounded() *Fault {
	out := *f
	out.Detail, out.Problems = truncate(f.Detail, 4*maxName), nil
	for i, p := range f.Problems {
		if i == maxListed {
			out.Problems = append(out.Problems, Problem{Message: fmt.Sprintf("and %d more", len(f.Problems)-i)})
			break
		}
		out.Problems = append(out.Problems, Problem{truncate(p.Path, maxName), truncate(p.Message, maxName)})
	}
	return &out
}

// truncate shortens a text to at most max bytes of whole characters, and appends an ellipsis.
func truncate(text string, max int) string {
	if len(text) <= max {
		return text
	}
	return strings.ToValidUTF8(text[:max], "") + "…"
}
