package eval

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a file of cases.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // from 1, 0 if it is not known
	Message string `json:"message"`
}

// String returns the problem as file:line: message.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Error holds every problem of some cases, at least one, sorted by file and line.
type Error struct{ Problems []Problem }

// Error returns one problem a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// asError returns the problems as an error, nil if there are none.
func asError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
	return &Error{slices.Compact(problems)}
}
