package graphtest

import (
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// reader reads a file of cases or of mocks.
type reader struct {
	yamldoc.Reader
	file     string
	problems []Problem
	load     []agentgraph.Option // of graphs that are refused
}

func newReader(file string) *reader {
	r := &reader{file: file}
	r.Report = func(line int, message string) { r.problems = append(r.problems, Problem{file, line, message}) }
	return r
}

// pair is a key with its value.
type pair = yamldoc.Field

func isNull(n yamldoc.Node) bool { return n.Kind() == yamldoc.Nothing }
