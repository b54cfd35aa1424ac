package graphdraw

import (
	"bufio"
	"io"

	"github.com/agentarbor/arbor/agentgraph"
)

// MermaidPart writes the nodes and edges of a graph for a subgraph of another flowchart. Its
// identifiers begin with prefix, and its lines with indent.
func MermaidPart(w io.Writer, g *agentgraph.Graph, prefix, indent string) error {
	d, err := newDrawing(g, 1)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	d.mermaidPart(b, prefix, indent)
	return b.Flush()
}

// DOTPart writes the nodes and edges of a graph for a cluster of another drawing, which needs
// compound=true. Its identifiers begin with prefix, and its lines with indent. Edges to
// the cluster must end at the node whose identifier is prefix followed by input.
func DOTPart(w io.Writer, g *agentgraph.Graph, prefix, indent string) error {
	d, err := newDrawing(g, 1)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	d.dotPart(b, prefix, indent)
	return b.Flush()
}
