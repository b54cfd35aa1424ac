package graph

import (
	"bytes"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/visible"
)

func drawCommand(f *factory.Factory) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "draw FILE",
		Short: "Draw a graph, with its conditions and transforms",
		Long: `Draws an AgentGraph file: as a Mermaid flowchart, in DOT for Graphviz, or as an SVG
picture. The agents of the graph need not exist. A graph with problems is not drawn; the
problems are printed as validate prints them, and the status is 2.`,
		Args: factory.Exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return drawGraph(f, args[0], format) },
	}
	cmd.Flags().StringVarP(&format, "format", "f", "mermaid", "draw in this `FORMAT`: mermaid, dot or svg")
	return cmd
}

func drawGraph(f *factory.Factory, file, format string) error {
	draw := map[string]func(io.Writer, *agentgraph.Graph) error{"mermaid": graphdraw.Mermaid, "dot": graphdraw.DOT, "svg": graphdraw.SVG}[format]
	if draw == nil {
		return factory.Usagef("--format %s: mermaid, dot and svg are possible", visible.Line(format))
	}
	graph, err := agentgraph.LoadFile(file, agentgraph.WithAnyRef())
	if err != nil {
		return badGraph(f, file, err, false)
	}
	for _, w := range graph.Warnings {
		f.Say("%s:%d: %s", file, w.Line, w.Message)
	}
	var out bytes.Buffer
	if err := draw(&out, graph); err != nil {
		return factory.Usagef("%s: %s", file, strings.TrimPrefix(err.Error(), "graphdraw: "))
	}
	if format == "mermaid" && (out.Len() > graphdraw.MermaidMaxTextSize || bytes.Count(out.Bytes(), []byte("->")) > graphdraw.MermaidMaxEdges) {
		f.Say("Mermaid refuses flowcharts of this size unless maxTextSize and maxEdges are set; --format svg and dot have no such bounds")
	}
	_, err = f.Stdout.Write(out.Bytes())
	return err
}
