package yamldoc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/visible"
)

// Problem is one problem in a file.
type Problem struct {
	File string `json:"file,omitempty"` // as the caller named it
	// Line and Col count from 1, Col in characters. Line is 0 for a problem without a line, such as that of a folder.
	// Col is 0 if only the line is known.
	Line    int    `json:"line,omitempty"`
	Col     int    `json:"-"`
	Message string `json:"message"`
}

// String returns the problem as file:line: message, without the line if it is 0.
func (p Problem) String() string {
	switch {
	case p.File == "" && p.Line == 0: // a problem of something that a program has made
		return p.Message
	case p.Line == 0:
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Error contains every problem of some files, at least one.
type Error struct{ Problems []Problem }

// Error returns one line per problem.
func (e *Error) Error() string { return Lines(e.Problems, Problem.String) }

// AsError returns an [*Error] with the problems, each line of its text once, or nil if there are none. It sorts the slice by
// file, line and column. Problems at the same place keep their order.
func AsError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	said := make(map[string]bool, len(problems))
	return &Error{slices.DeleteFunc(problems, func(p Problem) bool {
		line := p.String()
		again := said[line]
		said[line] = true
		return again
	})}
}

// Lines returns one line per problem.
func Lines[P any](problems []P, line func(P) string) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = visible.Line(line(p)) // a key of the file may have line breaks
	}
	return strings.Join(lines, "\n")
}

// MaxMessage is the largest length of a message in characters: a message may quote text as long as the file.
const MaxMessage = 600

// Message returns the message of a problem on one line, shortened to [MaxMessage].
func Message(format string, args ...any) string {
	return visible.Cut(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "), MaxMessage)
}
