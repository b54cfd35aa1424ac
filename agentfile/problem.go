package agentfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Problem is one mistake in a folder of agents. Its File begins with the path that Load or Check was
// given, and is the folder itself where no single file is to blame. Its Line and Col count from 1, Col
// in characters: Line is 0 for problems of a folder, and Col is 0 where only the line is known.
type Problem = yamldoc.Problem

// Error is the error of Load and LoadFS for files that are not as they must be. It holds every
// problem as Problems, sorted by file, line and column.
type Error = yamldoc.Error

// pos is a place in a file.
type pos struct{ line, col int }

// report collects problems.
type report struct {
	// given turns a file's path in the folder into the one that messages show,
	// which begins with what the user gave.
	given    func(file string) string
	problems []Problem
}

func (r *report) add(file string, at pos, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.given(file), Line: at.line, Col: at.col, Message: yamldoc.Message(format, args...)})
}

// place names a place in another file than the one that a problem is about.
func (r *report) place(file string, at pos) string {
	return fmt.Sprintf("%s:%d", r.given(file), at.line)
}

// err returns what was reported so far, sorted and each problem once, or nil.
func (r *report) err() error {
	all := slices.Clone(r.problems) // those of one place, too, have an order that no map decides
	slices.SortFunc(all, func(a, b Problem) int { return strings.Compare(a.Message, b.Message) })
	return yamldoc.AsError(all)
}
