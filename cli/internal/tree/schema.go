package tree

import (
	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/visible"
)

// SchemaCommand returns the command schema.
func SchemaCommand(f *factory.Factory) *cobra.Command {
	kinds := []string{"agent", "router", "graph"}
	return &cobra.Command{
		Use:   "schema KIND",
		Short: "Print the JSON schema of agent, router or graph files, for editors",
		Long: `Prints the JSON schema of the KIND agent (the front matter), router or graph. Editors
complete and check keys with it. It knows the keys and the types of their values; "lint" and
"graph validate" check everything.`,
		Args:      factory.Exactly("KIND"),
		ValidArgs: kinds,
		RunE: func(_ *cobra.Command, args []string) error {
			schemas := map[string]func() []byte{"agent": agentfile.Schema, "router": agentfile.RouterSchema, "graph": agentgraph.Schema}
			schema, ok := schemas[args[0]]
			if !ok {
				return factory.Usagef("there is no schema of %s: agent, router and graph have one%s", visible.Line(args[0]), nearest.Hint(args[0], kinds))
			}
			_, err := f.Stdout.Write(schema())
			return err
		},
	}
}
