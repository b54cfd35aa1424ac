package eval

import "github.com/agentarbor/arbor/internal/yamldoc"

// Problem is one mistake in a file of cases: its File, its Line, which counts from 1, and a Message.
type Problem = yamldoc.Problem

// Error contains all problems of some cases, at least one, as Problems, sorted by file and line.
type Error = yamldoc.Error
