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
		Long: `Draws the tree: agents, what they are for, their tools, and to whom else than its
own children an agent may hand over. Of an agent that is a graph the nodes and the
edges are drawn. No model is called or needed.`,
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
	cmd.Flags().StringVar(&format, "format", "text", "text, mermaid, dot or json")
	return cmd
}
