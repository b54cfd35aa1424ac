package tree

import (
	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli/internal/factory"
)

// SchemaCommand returns the command schema.
func SchemaCommand(f *factory.Factory) *cobra.Command {
	kinds := []string{"agent", "router", "graph"}
	return &cobra.Command{
		Use:       "schema KIND",
		ValidArgs: kinds,
		RunE: func(_ *cobra.Command, args []string) error {
			schemas := map[string]func() []byte{"agent": agentfile.Schema, "router": agentfile.RouterSchema, "graph": agentgraph.Schema}
			if err := factory.OneOf("KIND", args[0], kinds...); err != nil {
				return err
			}
			_, err := f.Stdout.Write(schemas[args[0]]())
			return err
		},
	}
}
