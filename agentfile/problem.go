package agentfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Problem is one problem in a folder of agents. File begins with the path that was passed to Load or Check; it is the
// folder itself if no single file is at fault. Line and Col count from 1, Col in characters. Line is 0 for problems of
// a folder, and Col is 0 if only the line is known.
type Problem = yamldoc.Problem

// Error is the error of [Load] and [LoadFS] for invalid files. It contains every problem in Problems, sorted by file,
// line and column.
type Error = yamldoc.Error

// pos is a place in a file.
type pos struct{ line, col int }

// report collects problems.
type report struct {
	// given converts a file's path in the folder into the path in messages, which begins with the user's path.
	given    func(file string) string
	problems []Problem
}

func (r *report) add(file string, at pos, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.given(file), Line: at.line, Col: at.col, Message: yamldoc.Message(format, args...)})
}

// place formats a place in a file other than that of the problem.
func (r *report) place(file string, at pos) string {
	return fmt.Sprintf("%s:%d", r.given(file), at.line)
}

// err returns the problems so far, sorted and without duplicates, or nil.
func (r *report) err() error {
	all := slices.Clone(r.problems) // sort problems of one place too, because maps order them at random
	slices.SortFunc(all, func(a, b Problem) int { return strings.Compare(a.Message, b.Message) })
	return yamldoc.AsError(all)
}
