package cli

import (
	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

func (p *program) treeCommand() *cobra.Command {
	var format string
	cmd := p.withPath(&cobra.Command{
		Short: "Draw the tree of agents",
		Long: `Draws the tree: the agents with their purposes and tools, and the agents to which each can
transfer in addition to its own children. For a graph, it draws the nodes and the edges.
It calls no model.`,
	}, "tree", 0, func(_ *cobra.Command, path string, _ []string) error {
		draw := render.TreeAs(format)
		if draw == nil {
			return usagef("--format %s: text, mermaid, dot and json are possible", visible.Line(format))
		}
		tree, err := p.lookAt(path)
		if err != nil {
			return err
		}
		return draw(p.Stdout, tree, p.lookOf(p.Stdout))
	})
	cmd.Flags().StringVar(&format, "format", "text", "draw in this `FORMAT`: text, mermaid, dot or json")
	return cmd
}
