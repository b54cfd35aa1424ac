package graphtest

import "github.com/agentarbor/arbor/internal/yamldoc"

// Problem is one mistake in a file of cases or of mocks: its File, its Line, which counts from 1, and
// a Message.
type Problem = yamldoc.Problem

// Error holds every problem of a file, at least one, as Problems, sorted by line.
type Error = yamldoc.Error
