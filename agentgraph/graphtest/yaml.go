package graphtest

import (
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// reader reads a file of cases or of mocks.
type reader struct {
	yamldoc.Decoder
	file     string
	problems []Problem
	load     []agentgraph.Option // of graphs that are refused
}

func newReader(file string) *reader {
	r := &reader{file: file}
	r.Report = func(line, _ int, message string) { r.problems = append(r.problems, Problem{file, line, message}) }
	return r
}

// each calls read for each key of a mapping of any keys.
func (r *reader) each(k *yamldoc.Key, n yamldoc.Node, read func(name string, p yamldoc.Pair)) {
	if n.Kind() != yamldoc.Mapping && n.Kind() != yamldoc.Nothing {
		r.WrongType(k, n)
		return
	}
	r.Each(n, read)
}
