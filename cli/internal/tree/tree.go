// Package tree has the commands about a tree that run no turn: tree, lint, router and new.
package tree

import (
	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

// Command makes the command tree.
func Command(f *factory.Factory) *cobra.Command {
	var format string
	cmd := f.WithPath(&cobra.Command{
		Short: "Draw the tree of agents",
		Long: `Draws the tree: the agents with their purposes and tools, and the agents to which each can
transfer in addition to its own children. For a graph, it draws the nodes and the edges.
It calls no model.`,
	}, "tree", 0, func(_ *cobra.Command, path string, _ []string) error {
		draw := render.TreeAs(format)
		if draw == nil {
			return factory.Usagef("--format %s: text, mermaid, dot and json are possible", visible.Line(format))
		}
		tree, err := f.LookAt(path)
		if err != nil {
			return err
		}
		return draw(f.Stdout, tree, f.LookOf(f.Stdout))
	})
	cmd.Flags().StringVar(&format, "format", "text", "draw in this `FORMAT`: text, mermaid, dot or json")
	return cmd
}
