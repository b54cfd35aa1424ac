package graphtest

import (
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// reader reads a file of cases or mocks.
type reader struct {
	yamldoc.Decoder
	load []agentgraph.Option // options for graphs that must be refused
}

// each calls read for each key of a mapping with any keys.
func (r *reader) each(k *yamldoc.Key, n yamldoc.Node, read func(name string, p yamldoc.Pair)) {
	if n.Kind() != yamldoc.Mapping && n.Kind() != yamldoc.Nothing {
		r.WrongType(k, n)
		return
	}
	r.Each(n, read)
}
