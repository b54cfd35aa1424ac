package graphtest

import "github.com/agentarbor/arbor/internal/yamldoc"

// Problem is one error in a file of cases or mocks: its File, its Line, which counts from 1, and a Message.
type Problem = yamldoc.Problem

// Error contains every problem of a file, at least one, in Problems, sorted by line.
type Error = yamldoc.Error
