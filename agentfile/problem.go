package agentfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one error in a folder of agents.
type Problem struct {
	// File begins with the path that Load or Check was given. It is the folder
	// itself where no single file is to blame.
	File string
	// Line and Col count from 1, Col in characters. Line is 0 for problems of a
	// folder; Col is 0 where only the line is known.
	Line, Col int
	Message   string
}

// String returns the problem as file:line: message, without a line of 0.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Error is the error of Load and LoadFS for files that are not as they must be.
// It holds every problem, sorted by file, line and column.
type Error struct{ Problems []Problem }

// Error returns one problem a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func sortProblems(all []Problem) {
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col), cmp.Compare(a.Message, b.Message))
	})
}

// pos is a place in a file.
type pos struct{ line, col int }

// maxMessage bounds a message in bytes: what it quotes may be a file's whole
// front matter.
const maxMessage = 600

// report collects problems.
type report struct {
	// given turns a file's path in the folder into the one that messages show,
	// which begins with what the user gave.
	given    func(file string) string
	problems []Problem
}

func (r *report) add(file string, at pos, format string, args ...any) {
	message := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	r.problems = append(r.problems, Problem{r.given(file), at.line, at.col, message})
}

// place names a place in another file than the one that a problem is about.
func (r *report) place(file string, at pos) string {
	return fmt.Sprintf("%s:%d", r.given(file), at.line)
}

// err returns what was reported so far, sorted and each problem once, or nil.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	all := slices.Clone(r.problems)
	sortProblems(all)
	return &Error{slices.Compact(all)}
}
