package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/agentarbor/arbor/cli/internal/factory"
)

// manCommand writes the manual pages of a release. It is a hidden command.
func manCommand(f *factory.Factory) *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			cmd.Root().DisableAutoGenTag = true // no date at the end of each page
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: f.Name + " " + factory.Version()}, args[0])
		},
	}
}
