package graphtest

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one error in a file of cases or of mocks.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // from 1
	Message string `json:"message"`
}

// String returns the problem as file:line: message.
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message) }

// Error holds every problem of a file, at least one, sorted by line.
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
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	return &Error{slices.Compact(problems)}
}

// short cuts what a message quotes.
func short(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
