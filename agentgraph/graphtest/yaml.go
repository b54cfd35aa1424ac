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
